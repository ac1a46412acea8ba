// SPDX-License-Identifier: Apache-2.0
#include "probes/offsets.h"

#include <algorithm>
#include <map>
#include <tuple>

namespace stallscope::probes {
namespace {

constexpr std::uint64_t kMostPeriod = 1 << 20;  // bytes; a larger element is as good as an array
constexpr std::uint64_t kCount = 8;             // bytes in front of an array that new [] made

}  // namespace

Offsets::PerBucket& Offsets::of(BucketId bucket) {
  if (bucket >= by_bucket_.size()) by_bucket_.resize(std::max<std::size_t>(bucket + 1, 64));
  return by_bucket_[bucket];
}

// A place in a stack, in the allocator's own memory or in nothing known says nothing.
bool Offsets::is_counted(BucketId bucket, PerBucket& one) const {
  if (one.kind == PerBucket::kUnknown) {
    const std::string_view kind = buckets_.kind_of(bucket), name = buckets_.name_of(bucket);
    const bool is_told = kind == "heap" || kind == "global" || kind == "named" ||
                         (kind == "mapping" && !name.starts_with('['));
    one.kind = is_told ? PerBucket::kCounted : PerBucket::kLeftOut;
  }
  return one.kind == PerBucket::kCounted;
}

void Offsets::miss(BucketId bucket, std::uint64_t address, std::uint32_t operation, bool counted,
                   std::uint32_t cycles) {
  PerBucket& one = of(bucket);
  if (!is_counted(bucket, one)) return;
  const Start* start = buckets_.start_of(address);
  if (start == nullptr) return;
  one.largest = std::max(one.largest, start->size);
  one.address = start->address;
  const Key key{one.place(address - start->address), operation, region_};
  auto [at, fresh] = one.counts.try_emplace(key);
  at->second.misses += counted;
  at->second.latency += cycles;
  if (!fresh) return;
  ++entries_;
  if (one.counts.size() > one.most) shrink(bucket, false);
  if (entries_ <= kMostOfAll) return;
  auto largest = std::max_element(
      by_bucket_.begin(), by_bucket_.end(),
      [](const PerBucket& a, const PerBucket& b) { return a.counts.size() < b.counts.size(); });
  shrink(static_cast<BucketId>(largest - by_bucket_.begin()), true);
}

void Offsets::shrink(BucketId bucket, bool for_others) {
  PerBucket& one = by_bucket_[bucket];
  if (one.period == 0 && one.granule == 1 && element_size_) {
    std::map<std::uint32_t, std::uint64_t> uses;
    for (const auto& [key, counts] : one.counts)
      uses[key.operation] += std::max<std::uint64_t>(counts.misses, 1);
    const std::uint64_t size =
        element_size_({bucket, one.address, one.largest, {uses.begin(), uses.end()}});
    if (size != 0 && size <= kMostPeriod && size < one.largest) {
      one.period = size;
      if (one.is_new_array && one.largest % size == kCount % size) one.header = kCount % size;
      fold(one);
    }
  }
  if (!for_others && one.counts.size() <= one.most) return;
  if (!for_others && one.most < kMostOfBucket) {
    one.most *= 2;
    return;
  }
  const std::size_t wanted = one.counts.size() / 2;
  while (one.counts.size() > wanted && one.granule < 1ULL << 48) {
    one.granule = std::max<std::uint64_t>(one.granule * 2, 8);
    fold(one);
  }
}

void Offsets::fold(PerBucket& one) {
  std::unordered_map<Key, Counts, Hash> folded;
  for (const auto& [key, counts] : one.counts) {
    Counts& into = folded[{one.place(key.offset), key.operation, key.region}];
    into.misses += counts.misses;
    into.latency += counts.latency;
  }
  entries_ -= one.counts.size() - folded.size();
  one.counts = std::move(folded);
}

void Offsets::fill(OffsetTable& table) const {
  for (BucketId bucket = 0; bucket < by_bucket_.size(); ++bucket) {
    const auto& counts = by_bucket_[bucket].counts;
    std::vector<std::pair<Key, Counts>> rows(counts.begin(), counts.end());
    std::sort(rows.begin(), rows.end(), [](const auto& a, const auto& b) {
      return std::tie(a.first.region, a.first.offset, a.first.operation) <
             std::tie(b.first.region, b.first.offset, b.first.operation);
    });
    for (const auto& [key, count] : rows)
      table.append({key.region, bucket, key.offset, key.operation, count.misses, count.latency});
  }
}

void Offsets::fill(FoldTable& table) const {
  for (BucketId bucket = 0; bucket < by_bucket_.size(); ++bucket) {
    const PerBucket& one = by_bucket_[bucket];
    if (!one.counts.empty())
      table.append({bucket, one.period, one.header, one.granule, one.largest});
  }
}

}  // namespace stallscope::probes
