// SPDX-License-Identifier: Apache-2.0
#include "probes/buckets.h"

#include <algorithm>

namespace stallscope::probes {

Buckets::Buckets() { buckets_.push_back({"unknown", "<unknown>", "", kNone32, 0, 0}); }

void Buckets::allocate(std::uint64_t address, std::uint64_t size, std::uint32_t site) {
  if (site >= by_site_.size()) by_site_.resize(site + 1, kNoBucket);
  BucketId& bucket = by_site_[site];
  if (bucket == kNoBucket) {
    bucket = static_cast<BucketId>(buckets_.size());
    buckets_.push_back({"heap", "", "", site, 0, 0});
  }
  ++buckets_[bucket].blocks;
  buckets_[bucket].bytes += size;
  release(address);  // its free may have gone unseen
  live_.emplace(address, Live{size, bucket});
  heap_.insert(address, std::max<std::uint64_t>(size, 1), bucket);
}

void Buckets::release(std::uint64_t address) {
  auto found = live_.find(address);
  if (found == live_.end()) return;
  heap_.erase(address, std::max<std::uint64_t>(found->second.size, 1));
  live_.erase(found);
}

BucketId Buckets::named(std::string_view kind, std::string_view name, std::string_view type) {
  std::string key(kind);
  key += '\0';
  key += name;
  auto [at, fresh] = by_name_.try_emplace(std::move(key), static_cast<BucketId>(buckets_.size()));
  if (fresh) buckets_.push_back({std::string(kind), std::string(name), std::string(type), kNone32});
  return at->second;
}

void Buckets::unmap(std::uint64_t address, std::uint64_t size) {
  if (size == 0 || address + size < address) return;
  mappings_.erase(address, size);
  variables_.erase(address, size);
}

void Buckets::place(ObjectMap& where, std::string_view kind, std::string_view name,
                    std::string_view type, std::uint64_t address, std::uint64_t size) {
  if (size == 0 || address + size < address) return;
  const BucketId bucket = named(kind, name, type);
  ++buckets_[bucket].blocks;
  buckets_[bucket].bytes += size;
  where.insert(address, size, bucket);
}

void Buckets::fill(BucketTable& table) const {
  for (std::uint32_t i = 0; i < buckets_.size(); ++i) {
    const Bucket& b = buckets_[i];
    table.append({i, b.kind, b.name, b.type, b.site, b.blocks, b.bytes});
  }
}

}  // namespace stallscope::probes
