// SPDX-License-Identifier: Apache-2.0
// A set-associative table of page numbers, LRU in each set, that remembers which pages were written
// while they were in it, and which were used there since somebody asked: a TLB, a page access
// buffer, and with one set a fully associative filter.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"

namespace stallscope::machine {

class PageSets {
 public:
  // `name` is for the error: what the table is called where its sizes are given.
  static Status check(const std::string& name, std::uint32_t entries, std::uint32_t ways) {
    if (entries == 0 || ways == 0 || entries % ways != 0 || !std::has_single_bit(entries / ways))
      return Error{name + " of " + std::to_string(entries) + " entries in " + std::to_string(ways) +
                       " ways cannot be made",
                   "entries over ways, the number of sets, must be a power of two", ""};
    return Done{};
  }
  // Sizes that check() accepts.
  PageSets(std::uint32_t entries, std::uint32_t ways)
      : ways_(ways), mask_(entries / ways - 1), entries_(entries, kEmpty) {}

  enum class Found {
    hit,
    clean,  // a write to a page that was not written since it came
    none,
  };
  // The page is the set's most recent one afterwards, and written if it is written now.
  Found look(std::uint64_t page, bool writes) {
    std::uint64_t* const set = entries_.data() + (page & mask_) * ways_;
    const std::uint64_t wanted = page << kBits;
    std::uint32_t way = 0;
    while (way < ways_ && set[way] >> kBits != page) ++way;
    const bool here = way < ways_;
    const std::uint64_t before = here ? set[way] : wanted;
    for (std::uint32_t i = here ? way : ways_ - 1; i > 0; --i) set[i] = set[i - 1];
    set[0] = before | (writes ? kWritten : 0) | (here ? kFound : 0);
    if (!here) return Found::none;
    return !writes || before & kWritten ? Found::hit : Found::clean;
  }
  // visit(page) for each that was here the last time and was found since, the oldest of a set
  // first.
  template <typename Visit>
  void visit_found(Visit&& visit) {
    for (std::size_t set = 0; set < entries_.size(); set += ways_)
      for (std::size_t way = ways_; way-- > 0;) {
        std::uint64_t& entry = entries_[set + way];
        if (entry == kEmpty) continue;
        const bool stayed = (entry & kOld) && (entry & kFound);
        entry = (entry & ~kFound) | kOld;
        if (stayed) visit(entry >> kBits);
      }
  }
  void clear() { std::fill(entries_.begin(), entries_.end(), kEmpty); }

 private:
  static constexpr std::uint64_t kWritten = 1, kFound = 2, kOld = 4;
  static constexpr unsigned kBits = 3;
  static constexpr std::uint64_t kEmpty = ~std::uint64_t{0};  // no page has that number

  std::uint32_t ways_;
  std::uint64_t mask_;
  std::vector<std::uint64_t> entries_;
};

}  // namespace stallscope::machine
