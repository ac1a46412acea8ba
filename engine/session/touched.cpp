// SPDX-License-Identifier: Apache-2.0
#include "session/touched.h"

#include <algorithm>
#include <bit>
#include <map>
#include <unordered_map>

#include "base/flat_map.h"
#include "probes/buckets.h"
#include "session/memory_events.h"
#include "stream/reader.h"

namespace stallscope::session {
namespace {

constexpr unsigned kLineBits = 6, kBucketShift = 42;  // user addresses have 47 bits
constexpr std::uint64_t kLine = 1 << kLineBits, kWord = 8;

class Touching {
 public:
  Touching(const stream::CodeTable& code, const std::vector<Followable>& followed) : code_(code) {
    buckets.keep_starts();
    for (const Followable& one : followed)
      if (one.element && one.site)
        by_site_[*one.site] = one.element;
      else if (one.element)
        by_address_[one.address] = one.element;
  }

  void on_block(std::uint32_t, const stream::Exit& info, const std::uint64_t* addresses) {
    for (std::uint32_t i = 0; i < info.operations; ++i) {
      const stream::Operation& operation = code_.operations[info.first_operation + i];
      if (addresses[i] == SS_NO_ADDRESS || operation.is_prefetch()) continue;
      touch(addresses[i], std::max<std::uint32_t>(operation.size, 1));
    }
  }
  Status on_record(unsigned tag, const std::uint64_t* words, std::uint32_t count) {
    if (tag == SS_SIFTED)
      return Error{"the stream has sifted accesses where all are wanted", "", ""};
    tell_memory(buckets, tag, words, count);
    return Done{};
  }

  void fill(Touched& out) const {
    std::map<probes::BucketId, std::pair<std::uint64_t, std::uint64_t>> sums;  // lines, bytes
    lines_.for_each([&](std::uint64_t key, std::uint64_t mask) {
      auto& [lines, bytes] = sums[static_cast<probes::BucketId>(key >> kBucketShift)];
      ++lines;
      bytes += static_cast<std::uint64_t>(std::popcount(mask));
    });
    for (const auto& [bucket, sum] : sums) {
      const auto counted = accesses_.find(bucket);
      out.touch.append(
          {bucket, sum.first, sum.second, counted == accesses_.end() ? 0 : counted->second});
    }
    for (const auto& [key, count] : words_) out.touch_offset.append({key.first, key.second, count});
    buckets.fill(out.bucket);
  }

  probes::Buckets buckets;

 private:
  void touch(std::uint64_t address, std::uint32_t size) {
    const probes::BucketId bucket = buckets.find(address);
    ++accesses_[bucket];
    for (std::uint64_t at = address, left = size; left;) {
      const std::uint64_t here = std::min(left, kLine - at % kLine);
      const std::uint64_t bits = here == kLine ? ~std::uint64_t{0} : (std::uint64_t{1} << here) - 1;
      *lines_.try_emplace(at >> kLineBits | std::uint64_t{bucket} << kBucketShift).first |=
          bits << at % kLine;
      at += here;
      left -= here;
    }
    if (!by_site_.empty() || !by_address_.empty()) count_words(bucket, address, size);
  }

  void count_words(probes::BucketId bucket, std::uint64_t address, std::uint32_t size) {
    const auto [element, fresh] = elements_.try_emplace(bucket, 0);
    if (fresh) element->second = element_of(bucket, address);
    if (!element->second) return;
    const probes::Start* start = buckets.start_of(address);
    if (!start) return;
    const std::uint64_t offset = address - start->address;
    for (std::uint64_t word = offset / kWord; word <= (offset + size - 1) / kWord; ++word)
      ++words_[{bucket, word * kWord % element->second / kWord * kWord}];
  }

  std::uint64_t element_of(probes::BucketId bucket, std::uint64_t address) {
    if (buckets.kind_of(bucket) == "heap") {
      const auto found = by_site_.find(buckets.site_of(bucket));
      return found == by_site_.end() ? 0 : found->second;
    }
    const probes::Start* start = buckets.start_of(address);
    const auto found = start ? by_address_.find(start->address) : by_address_.end();
    return found == by_address_.end() ? 0 : found->second;
  }

  const stream::CodeTable& code_;
  FlatMap<std::uint64_t> lines_;  // line and bucket -> bytes of it
  std::unordered_map<probes::BucketId, std::uint64_t> accesses_;
  std::unordered_map<std::uint32_t, std::uint64_t> by_site_;
  std::unordered_map<std::uint64_t, std::uint64_t> by_address_;
  std::unordered_map<probes::BucketId, std::uint64_t> elements_;
  std::map<std::pair<probes::BucketId, std::uint64_t>, std::uint64_t> words_;
};

}  // namespace

Result<Touched> touched_by(const std::string& path, const std::vector<Placed>& placed,
                           const std::vector<Followable>& followed) {
  auto reader = stream::TraceReader::open(path);
  if (!reader) return reader.error();
  Touching touching(reader->code(), followed);
  place_all(placed, touching.buckets);
  if (Status read = reader->for_each(touching); !read) return read.error();
  Touched out;
  touching.fill(out);
  out.truncated = reader->truncated();
  return out;
}

}  // namespace stallscope::session
