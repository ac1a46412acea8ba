// SPDX-License-Identifier: Apache-2.0
#include "probes/buckets.h"

#include <algorithm>

namespace stallscope::probes {
namespace {

// A block of no bytes still has an address of its own.
std::uint64_t room(std::uint64_t size) { return std::max<std::uint64_t>(size, 1); }

bool wraps(std::uint64_t address, std::uint64_t size) { return address + size < address; }

}  // namespace

Buckets::Buckets() { buckets_.push_back({"unknown", "<unknown>", "", kNone32, 0, 0}); }

BucketId Buckets::of_site(std::uint32_t site) {
  if (site >= by_site_.size()) by_site_.resize(site + 1, kNoBucket);
  if (by_site_[site] == kNoBucket) {
    by_site_[site] = static_cast<BucketId>(buckets_.size());
    buckets_.push_back({"heap", "", "", site, 0, 0});
  }
  return by_site_[site];
}

BucketId Buckets::allocate(std::uint64_t address, std::uint64_t size, std::uint32_t site) {
  const BucketId bucket = of_site(site);
  ++buckets_[bucket].blocks;
  buckets_[bucket].bytes += size;
  auto [live, fresh] = live_.try_emplace(address);
  if (!fresh) {  // its free went unseen
    release(address);
    live = live_.try_emplace(address).first;
  }
  *live = {size, bucket};
  change(address, room(size), [&] { return heap_.insert(address, room(size), bucket); });
  return bucket;
}

void Buckets::release(std::uint64_t address) {
  const Live* found = live_.find(address);
  if (found == nullptr) return;
  released_address_ = address;
  released_ = *found;
  released_names_.clear();
  const std::uint64_t size = room(released_.size);
  live_.erase(address);
  change(address, size, [&] {
    const bool wide = heap_.erase(address, size);
    if (given_.empty()) return wide;
    released_names_ = drop_names(address, size);
    return wide || has_wide(address, size);
  });
}

void Buckets::revive(std::uint64_t address) {
  if (address == 0 || address != released_address_) return;
  auto [live, fresh] = live_.try_emplace(address);
  if (!fresh) return;
  *live = released_;
  const std::uint64_t size = room(released_.size);
  change(address, size, [&] {
    const bool wide = heap_.insert(address, size, released_.bucket);
    for (const auto& [start, given] : released_names_) {
      given_.emplace(start, given);
      names_.insert(start, given.size, given.bucket);
    }
    return wide || has_wide(address, size);
  });
}

BucketId Buckets::named(std::string_view kind, std::string_view name, std::string_view type) {
  std::string key(kind);
  key += '\0';
  key += name;
  auto [at, fresh] = by_name_.try_emplace(std::move(key), static_cast<BucketId>(buckets_.size()));
  if (fresh)
    buckets_.push_back({std::string(kind), std::string(name), std::string(type), kNone32, 0, 0});
  return at->second;
}

void Buckets::unmap(std::uint64_t address, std::uint64_t size) {
  if (size == 0 || wraps(address, size)) return;
  change(address, size, [&] {
    mappings_.erase(address, size);
    variables_.erase(address, size);
    if (!given_.empty()) drop_names(address, size);
    return true;
  });
}

void Buckets::place(ObjectMap& where, std::string_view kind, std::string_view name,
                    std::string_view type, std::uint64_t address, std::uint64_t size) {
  if (size == 0 || wraps(address, size)) return;
  const BucketId bucket = named(kind, name, type);
  ++buckets_[bucket].blocks;
  buckets_[bucket].bytes += size;
  change(address, size, [&] {
    const bool wide = &where == &mappings_ || has_wide(address, size);
    return where.insert(address, size, bucket) || wide;
  });
  ++placed_;
}

void Buckets::give_name(std::string_view name, std::uint64_t address, std::uint64_t size) {
  if (size == 0 || wraps(address, size)) return;
  place(names_, "named", name, "", address, size);
  given_[address] = {size, named("named", name, "")};
}

std::vector<Buckets::Names::value_type> Buckets::drop_names(std::uint64_t start,
                                                            std::uint64_t size) {
  std::vector<Names::value_type> dropped;
  for (auto at = given_.lower_bound(start); at != given_.end() && at->first < start + size;) {
    if (at->second.size > start + size - at->first) {
      ++at;
      continue;
    }
    names_.erase(at->first, at->second.size);
    dropped.push_back(*at);
    at = given_.erase(at);
  }
  return dropped;
}

void Buckets::map(std::string_view kind, std::string_view name, std::uint64_t address,
                  std::uint64_t size) {
  place(mappings_, kind, name, "", address, size);
  if (kind == "stack") stacks_[address] = mappings_.find(address);
}

BucketId Buckets::grow_stack(std::uint64_t address) {
  constexpr std::uint64_t kMost = 16 << 20, kPage = 4096;
  const auto above = stacks_.upper_bound(address);
  if (above == stacks_.end() || above->first - address > kMost) return kNoBucket;
  const auto [low, stack] = *above;
  const std::uint64_t start = address / kPage * kPage;
  bool in_the_way = mappings_.find(low) != stack || mappings_.find(low - 1) != kNoBucket;
  if (!in_the_way)
    mappings_.split(start, low - start, [&](BucketId bucket, std::uint64_t, std::uint64_t) {
      in_the_way |= bucket != kNoBucket;
    });
  stacks_.erase(above);
  if (in_the_way) return kNoBucket;  // and never will
  change(start, low - start, [&] {
    mappings_.insert(start, low - start, stack);
    return true;
  });
  buckets_[stack].bytes += low - start;
  stacks_[start] = stack;
  return stack;
}

BucketId Buckets::find_frame(std::uint64_t address, BucketId mapping) {
  if (mapping == kNoBucket || buckets_[mapping].kind != "stack") return mapping;
  const std::uint32_t operation = frames_->find(address);
  if (operation == kNone32) return mapping;
  auto [at, fresh] = by_frame_.try_emplace(operation, static_cast<BucketId>(buckets_.size()));
  if (fresh) buckets_.push_back({"stack", "", "", kNone32, 0, 0, operation});
  return at->second;
}

// A change within a wide range, which locate() may have given out as a whole, counts as a wide one.
void Buckets::stamp_changed(std::uint64_t start, std::uint64_t size, bool wide) {
  if (wide || size >= ObjectMap::kWide) {
    changes_[kWideSlot] += 1;
    return;
  }
  for (std::uint64_t page = start >> kPageBits; page <= (start + size - 1) >> kPageBits; ++page)
    changes_[page & (kSlots - 1)] += 1;
  if (mappings_.empty()) return;
  for (const std::uint64_t address : {start, start + size - 1}) {
    if (address - mapping_.start >= mapping_.end - mapping_.start ||
        mapping_stamp_ != wide_changes())
      mapping_ = mappings_.locate(address);
    mapping_stamp_ = wide_changes();
    changes_[mapping_slot_of(mapping_)] += 1;
  }
}

// Blocks and variables may be wide. So may what lies in a mapping and in nothing else, but blocks
// come into being there at any time: it has a slot for itself.
Buckets::Place Buckets::locate(std::uint64_t address) {
  std::uint64_t start = 0, last = ~std::uint64_t{0};
  BucketId bucket = kUnknown;
  ObjectMap* const layers[] = {&names_, &variables_, &heap_, &mappings_};
  for (ObjectMap* layer : layers) {
    if (layer->empty()) continue;
    const Stretch stretch = layer->locate(address);
    start = std::max(start, stretch.start);
    last = std::min(last, stretch.end - 1);
    if (stretch.bucket == kNoBucket) continue;
    bucket = stretch.bucket;
    if (last - start < ObjectMap::kWide) break;
    return {bucket, layer == &mappings_ ? mapping_slot_of(stretch) : kWideSlot, start,
            last - start + 1};
  }
  if (bucket == kUnknown && grow_stack(address) != kNoBucket) return locate(address);
  const std::uint64_t page = address >> kPageBits << kPageBits;
  start = std::max(start, page);
  last = std::min(last, page + ((std::uint64_t{1} << kPageBits) - 1));
  return {bucket, slot_of(address), start, last - start + 1};
}

// Mappings hold what lies in them, so they come last however large their part of the line is.
BucketId Buckets::find_line_under_names(std::uint64_t line, std::uint32_t size) {
  BucketId best = kNoBucket;
  std::uint64_t most = 0;
  split(line, size, [&](BucketId bucket, std::uint64_t bytes) {
    const std::string& kind = buckets_[bucket].kind;
    if (bytes <= most || kind == "mapping" || kind == "stack" || kind == "unknown") return;
    best = bucket;
    most = bytes;
  });
  if (best == kNoBucket) best = mappings_.find_most(line, size);
  return best == kNoBucket ? kUnknown : best;
}

void Buckets::keep_starts() {
  for (ObjectMap* layer : {&names_, &variables_, &heap_, &mappings_}) layer->keep_starts();
}

const Start* Buckets::start_of(std::uint64_t address) {
  for (ObjectMap* layer : {&names_, &variables_, &heap_, &mappings_})
    if (layer->find(address) != kNoBucket) return layer->start_of(address);
  return nullptr;
}

void Buckets::fill(BucketTable& table) const {
  for (std::uint32_t i = 0; i < buckets_.size(); ++i) {
    const Bucket& b = buckets_[i];
    table.append({i, b.kind, b.name, b.type, b.site, b.blocks, b.bytes, b.operation});
  }
}

}  // namespace stallscope::probes
