// SPDX-License-Identifier: Apache-2.0
// The LRU stack of who reads the logs of PATH units that tell which pages come into their tables,
// which leave them, and when those were used last: exact reuse distances of what comes, from
// about the tables' reach on, without knowing what happens inside the tables.
//
// A page that the tables hold counts as used now. One that left stands at the moment of its last
// use, which is past by then. So the distance of a page that comes is the number of pages held
// plus that of the pages that left and were used after it. (It is too large by those that are held
// and were not used since, which are few: tables throw out what is not used.)
//
// A moment is the number of entries logged so far, with the lookups since then below it. Each entry
// has places for eight pages that are used last before the next entry; they are told apart by their
// lookups. Where more are, they go to the next free places in the order in which they leave.
//
// One thread at a time. Limits: 2^29 pages; 16/load + 10 to 20 bytes a page, load being between 3/8
// and 3/4.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"
#include "stack/distance_counts.h"
#include "stack/page_table.h"
#include "stack/recency_bits.h"

namespace stallscope::stack {

inline constexpr unsigned kLookupBits = 16;  // of a moment, below the entries

class PathStack {
 public:
  // No page leaves more than `recent` entries after the one in which it was used last; one that
  // does stands where it was used so many entries ago. At most 2^20.
  explicit PathStack(std::uint64_t recent = 1u << 15, std::uint32_t history = 16);

  enum Kind : std::uint8_t {
    again = 0,  // logged, though the unit had the page: written for the first time
    came = 1,
    left = 2,
  };
  // In the order of the log: what happened to each page, and the moment; of a page that left, that
  // of its last use. As many of each.
  Status append(std::span<const std::uint64_t> pages, std::span<const std::uint8_t> kinds,
                std::span<const std::uint64_t> moments);

  const DistanceCounts& counts() const { return counts_; }
  void end_epoch() { counts_.end_epoch(); }
  std::uint64_t distinct() const { return table_.size(); }
  std::uint64_t held() const { return held_; }  // pages in the tables of some unit
  std::uint64_t bytes() const {
    return table_.bytes() + bits_.bytes() + lookups_.size() * 2 + counts_.bytes();
  }

 private:
  void reach(std::uint64_t entry);  // time has come to it
  void renumber();

  PageTable table_;  // to the page's place, or kHeld; there, the number of units that hold it
  RecencyBits bits_;
  LargeArray<std::uint16_t> lookups_;  // of the page at each place
  DistanceCounts counts_;
  std::uint64_t recent_;
  std::uint64_t held_ = 0;
  std::uint64_t entry_ = 0;   // the latest one
  std::uint64_t first_ = 0;   // the earliest entry that still has its own places
  std::uint64_t origin_ = 1;  // the group of places of that one
};

}  // namespace stallscope::stack
