// SPDX-License-Identifier: Apache-2.0
// From an address to the stat bucket that holds it: all heap blocks of one allocation path share a
// bucket, a variable is one, and so on. Built for millions of small blocks that come and go.
//
// Memory is cut into pages. A page keeps the ranges that begin or lie in it, sorted; a page that
// one range covers whole keeps just that. Ranges never overlap; a new one replaces what it covers.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "probes/starts.h"

namespace stallscope::probes {

using BucketId = std::uint32_t;
inline constexpr BucketId kNoBucket = 0xffffffff;

class ObjectMap {
 public:
  void insert(std::uint64_t start, std::uint64_t size, BucketId bucket);
  // Removes [start, start+size), which insert() was given as a whole.
  void erase(std::uint64_t start, std::uint64_t size);

  BucketId find(std::uint64_t address) {
    const std::uint64_t number = address >> kPageBits;
    const Page* page = number == last_number_ ? last_ : look_up(number);
    if (page == nullptr) return kNoBucket;
    return page->find(static_cast<std::uint32_t>(address & kPageMask));
  }

  // The bucket that holds most of [start, start+size), which lies within one page.
  BucketId find_most(std::uint64_t start, std::uint32_t size) {
    const std::uint64_t number = start >> kPageBits;
    const Page* page = number == last_number_ ? last_ : look_up(number);
    if (page == nullptr) return kNoBucket;
    const auto offset = static_cast<std::uint32_t>(start & kPageMask);
    return page->find_most(offset, offset + size);
  }

  bool empty() const { return pages_.empty(); }

  // From here on, remembers where ranges begin.
  void keep_starts() { starts_ = std::make_unique<Starts>(); }
  // The range that an address which find() knows is in; none when starts were not kept.
  const Start* start_of(std::uint64_t address) const {
    return starts_ ? starts_->find(address) : nullptr;
  }

  // The pieces of [start, start+size) in their order: visit(bucket, start, size), with kNoBucket
  // for what lies between ranges. A range may come in several pieces.
  template <typename Visit>
  void split(std::uint64_t start, std::uint64_t size, Visit&& visit) {
    for_each_page(start, size, [&](std::uint64_t number, std::uint32_t from, std::uint32_t to) {
      const std::uint64_t base = number << kPageBits;
      const Page* page = number == last_number_ ? last_ : look_up(number);
      std::uint32_t done = from;
      if (page != nullptr)
        for (auto at = page->first_behind(from); at != page->ranges.end() && at->start < to; ++at) {
          const std::uint32_t begin = std::max(from, at->start), end = std::min(to, at->end);
          if (begin > done) visit(kNoBucket, base + done, std::uint64_t{begin - done});
          visit(at->bucket, base + begin, std::uint64_t{end - begin});
          done = end;
        }
      if (to > done) visit(kNoBucket, base + done, std::uint64_t{to - done});
    });
  }

 private:
  static constexpr unsigned kPageBits = 12;
  static constexpr std::uint64_t kPageMask = (1u << kPageBits) - 1;

  struct Range {
    std::uint32_t start;  // within the page
    std::uint32_t end;
    BucketId bucket;
  };
  struct Page {
    std::vector<Range> ranges;  // sorted, never overlapping
    // The first range that ends behind `offset`.
    std::vector<Range>::const_iterator first_behind(std::uint32_t offset) const {
      return std::lower_bound(ranges.begin(), ranges.end(), offset,
                              [](const Range& r, std::uint32_t o) { return r.end <= o; });
    }
    BucketId find(std::uint32_t offset) const;
    BucketId find_most(std::uint32_t start, std::uint32_t end) const;
    void insert(Range range);
    void cut(std::uint32_t start, std::uint32_t end);
  };

  const Page* look_up(std::uint64_t number);
  // visit(page, from, to) for each page of the range, with offsets in the page.
  template <typename Visit>
  static void for_each_page(std::uint64_t start, std::uint64_t size, Visit&& visit) {
    const std::uint64_t end = start + size;
    for (std::uint64_t at = start; at < end;) {
      const std::uint64_t page_end = std::min(end, (at & ~kPageMask) + kPageMask + 1);
      visit(at >> kPageBits, static_cast<std::uint32_t>(at & kPageMask),
            static_cast<std::uint32_t>((at & kPageMask) + (page_end - at)));
      at = page_end;
    }
  }

  std::unordered_map<std::uint64_t, std::unique_ptr<Page>> pages_;
  std::uint64_t last_number_ = ~0ULL;
  const Page* last_ = nullptr;
  std::unique_ptr<Starts> starts_;  // nullptr unless somebody asks for them
};

}  // namespace stallscope::probes
