// SPDX-License-Identifier: Apache-2.0
// A set-associative table of page numbers, LRU in each set, that remembers which pages were written
// while they were in it, when each was used last, and which were used there since somebody asked: a
// TLB, a page access buffer, and with one set a fully associative filter.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"

namespace stallscope::machine {

class PageSets {
  static constexpr std::uint64_t kNone = ~std::uint64_t{0};  // no page has that number

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
      : ways_(ways), mask_(entries / ways - 1), entries_(entries) {}

  enum class Found {
    hit,
    clean,  // a write to a page that was not written since it came
    none,
  };
  // A page that is no longer here, and when it was used last.
  struct Gone {
    std::uint64_t page = kNone;
    std::uint64_t used = 0;
    explicit operator bool() const { return page != kNone; }
  };
  // The page is the set's most recent one afterwards, used `now`, and written if it is written now.
  // Who had to leave for it is in `gone`.
  Found look(std::uint64_t page, bool writes, std::uint64_t now, Gone& gone) {
    Entry* const set = set_of(page);
    std::uint32_t way = 0;
    while (way < ways_ && set[way].tag >> kBits != page) ++way;
    const bool here = way < ways_;
    if (!here) {
      way = ways_ - 1;
      if (set[way].tag != kEmpty) gone = {set[way].tag >> kBits, set[way].used};
    }
    const std::uint64_t before = here ? set[way].tag : page << kBits;
    for (std::uint32_t i = way; i > 0; --i) set[i] = set[i - 1];
    set[0] = {before | (writes ? kWritten : 0) | (here ? kFound : 0), now};
    if (!here) return Found::none;
    return !writes || before & kWritten ? Found::hit : Found::clean;
  }
  // Whether the page is here; it was used then, if that is later than what is known.
  bool note(std::uint64_t page, std::uint64_t used) {
    Entry* const found = find(page);
    if (found) found->used = std::max(found->used, used);
    return found != nullptr;
  }
  // When a page that is here was used last; none: 0.
  std::uint64_t used(std::uint64_t page) {
    const Entry* const found = find(page);
    return found ? found->used : 0;
  }
  bool has(std::uint64_t page) { return find(page) != nullptr; }
  void remove(std::uint64_t page) {
    Entry* const found = find(page);
    if (!found) return;
    // Empty ways stay behind the others.
    Entry* const end = set_of(page) + ways_;
    std::copy(found + 1, end, found);
    end[-1] = {};
  }
  std::vector<Gone> all() const {
    std::vector<Gone> found;
    for (const Entry& entry : entries_)
      if (entry.tag != kEmpty) found.push_back({entry.tag >> kBits, entry.used});
    return found;
  }
  // visit(page) for each that was here the last time and was found since, the oldest of a set
  // first.
  template <typename Visit>
  void visit_found(Visit&& visit) {
    for (std::size_t set = 0; set < entries_.size(); set += ways_)
      for (std::size_t way = ways_; way-- > 0;) {
        std::uint64_t& tag = entries_[set + way].tag;
        if (tag == kEmpty) continue;
        const bool stayed = (tag & kOld) && (tag & kFound);
        tag = (tag & ~kFound) | kOld;
        if (stayed) visit(tag >> kBits);
      }
  }
  void clear() { std::fill(entries_.begin(), entries_.end(), Entry{}); }

 private:
  static constexpr std::uint64_t kWritten = 1, kFound = 2, kOld = 4;
  static constexpr unsigned kBits = 3;
  static constexpr std::uint64_t kEmpty = kNone;
  struct Entry {
    std::uint64_t tag = kEmpty;
    std::uint64_t used = 0;
  };
  Entry* set_of(std::uint64_t page) { return entries_.data() + (page & mask_) * ways_; }
  Entry* find(std::uint64_t page) {
    Entry* const set = set_of(page);
    Entry* const found = std::find_if(
        set, set + ways_, [&](const Entry& entry) { return entry.tag >> kBits == page; });
    return found == set + ways_ ? nullptr : found;
  }

  std::uint32_t ways_;
  std::uint64_t mask_;
  std::vector<Entry> entries_;
};

}  // namespace stallscope::machine
