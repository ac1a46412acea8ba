// SPDX-License-Identifier: Apache-2.0
// Parts of heap blocks as ranges that come and go, from the birth of each block to its death.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "base/flat_map.h"
#include "probes/range_set.h"
#include "stallscope_records.h"

namespace stallscope::session {

// Which bytes of a heap block.
struct HeapWatch {
  std::optional<std::vector<std::uint32_t>> sites;  // of these allocation paths, sorted; or of all
  bool past = false;                                // from the end of the block, not from its start
  std::uint64_t from = 0, to = 0;                   // bytes; to 0 without `past`: the whole block
  std::uint64_t stride = 0;  // the same in each element of this size; 0: once
  std::uint32_t watch = 0;

  bool wants(std::uint32_t site) const {
    return !sites || std::binary_search(sites->begin(), sites->end(), site);
  }
};

class HeapRanges {
 public:
  explicit HeapRanges(std::vector<HeapWatch> watches) : watches_(std::move(watches)) {}

  bool empty() const { return watches_.empty(); }
  // Sites may be added as they become known; numbers only grow.
  std::vector<HeapWatch>& watches() { return watches_; }

  // change(range, comes) for each range that the record brings or takes.
  template <typename Change>
  void on_record(unsigned tag, const std::uint64_t* words, Change&& change) {
    if (tag == SS_ALLOC) {
      const auto& record = *reinterpret_cast<const ss_alloc*>(words);
      if (!record.address) {  // what could not grow stays
        if (released_address_ == record.old_address)
          place(released_address_, released_, true, change);
        return;
      }
      forget(record.address, change);
      const Block block{record.size, static_cast<std::uint32_t>(record.site)};
      *live_.try_emplace(record.address).first = block;
      place(record.address, block, true, change);
    } else if (tag == SS_FREE) {
      forget(reinterpret_cast<const ss_free*>(words)->address, change);
    }
  }

 private:
  struct Block {
    std::uint64_t size;
    std::uint32_t site;
  };

  template <typename Change>
  void forget(std::uint64_t address, Change& change) {
    const Block* block = live_.find(address);
    if (!block) return;
    released_address_ = address;
    released_ = *block;
    place(address, released_, false, change);
    live_.erase(address);
  }

  template <typename Change>
  void place(std::uint64_t address, const Block& block, bool comes, Change& change) const {
    for (const HeapWatch& watch : watches_) {
      if (!watch.wants(block.site)) continue;
      const std::uint64_t end = address + block.size;
      if (watch.past) {
        change({end + watch.from, end + watch.to, watch.watch}, comes);
        continue;
      }
      const std::uint64_t length = watch.to ? watch.to : block.size;
      for (std::uint64_t start = address; start + watch.from < end; start += watch.stride) {
        change({start + watch.from, std::min(start + length, end), watch.watch}, comes);
        if (watch.stride == 0) break;
      }
    }
  }

  std::vector<HeapWatch> watches_;
  FlatMap<Block> live_;
  std::uint64_t released_address_ = 0;
  Block released_{};
};

}  // namespace stallscope::session
