// SPDX-License-Identifier: Apache-2.0
#include "target/heap.h"

#include <algorithm>

namespace stallscope::target {

void Heap::bury(std::uint64_t address, const Block& b, std::uint64_t when,
                ObjectTable& table) const {
  table.append(
      {"heap", "", "", address, b.size, b.born, when, b.thread, b.site, alloc_kind_name(b.kind)});
}

std::uint64_t Heap::allocate(std::uint64_t address, const Block& block, ObjectTable& gone) {
  const auto [at, fresh] = live_.try_emplace(address);
  std::uint64_t freed = 0;
  if (!fresh) {
    ++unseen_frees_;
    freed = at->size;
    live_bytes_ -= at->size;
    bury(address, *at, block.born, gone);
  }
  *at = block;
  ++allocations_;
  live_bytes_ += block.size;
  peak_bytes_ = std::max(peak_bytes_, live_bytes_);
  return freed;
}

std::uint64_t Heap::release(std::uint64_t address, std::uint64_t when, ObjectTable& gone) {
  const Block* at = live_.find(address);
  if (at == nullptr) {
    ++unmatched_frees_;
    return 0;
  }
  last_freed_ = *at;
  last_freed_address_ = address;
  bury(address, last_freed_, when, gone);
  live_bytes_ -= last_freed_.size;
  live_.erase(address);
  ++frees_;
  return last_freed_.size;
}

bool Heap::revive(std::uint64_t address, std::uint64_t when) {
  if (address == 0 || address != last_freed_address_) return false;
  const auto [at, fresh] = live_.try_emplace(address);
  if (!fresh) return false;
  last_freed_.born = when;
  *at = last_freed_;
  live_bytes_ += last_freed_.size;
  --frees_;
  return true;
}

std::vector<std::uint64_t> Heap::live_addresses() const {
  std::vector<std::uint64_t> addresses;
  addresses.reserve(live_.size());
  live_.for_each([&](std::uint64_t address, const Block&) { addresses.push_back(address); });
  std::sort(addresses.begin(), addresses.end());
  return addresses;
}

void Heap::fill_live(ObjectTable& table) const {
  for_each_live(
      [&](std::uint64_t address, const Block& block) { bury(address, block, kNever, table); });
}

void Heap::restart_counts() {
  allocations_ = frees_ = unmatched_frees_ = unseen_frees_ = 0;
  peak_bytes_ = live_bytes_;
}

}  // namespace stallscope::target
