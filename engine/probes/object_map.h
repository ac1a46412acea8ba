// SPDX-License-Identifier: Apache-2.0
// From an address to the stat bucket that holds it: all heap blocks of one allocation path share a
// bucket, a variable is one, and so on. Built for millions of small blocks that come and go, and
// for a few ranges of any size.
//
// Memory is cut into pages. A page keeps the narrow ranges that begin or lie in it, sorted. Wide
// ranges stand in a tree beside the pages. Ranges never overlap; a new one replaces what it covers.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <unordered_map>
#include <vector>

#include "probes/starts.h"

namespace stallscope::probes {

using BucketId = std::uint32_t;
inline constexpr BucketId kNoBucket = 0xffffffff;

// A range of memory with one answer: find() gives `bucket` for every address in it.
struct Stretch {
  BucketId bucket;
  std::uint64_t start;
  std::uint64_t end;  // 0 for the end of the address space
};

class ObjectMap {
 public:
  static constexpr std::uint64_t kWide = 8 << 10;  // bytes of the narrowest wide range

  void insert(std::uint64_t start, std::uint64_t size, BucketId bucket);
  // Removes whatever lies in [start, start+size).
  void erase(std::uint64_t start, std::uint64_t size);

  BucketId find(std::uint64_t address) {
    if (const Page* page = page_of(address >> kPageBits)) {
      const BucketId found = page->find(static_cast<std::uint32_t>(address & kPageMask));
      if (found != kNoBucket) return found;
    }
    const Wide* wide = wide_at(address);
    return wide ? wide->bucket : kNoBucket;
  }
  // With what is around it that has the same answer, as far as that is cheap to know.
  Stretch locate(std::uint64_t address);

  // The bucket that holds most of [start, start+size), which lies within one page.
  BucketId find_most(std::uint64_t start, std::uint32_t size);

  bool empty() const { return pages_.empty() && wide_.empty(); }
  // Whether a wide range lies in [start, start+size).
  bool has_wide(std::uint64_t start, std::uint64_t size) const;

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
    const auto gap = [&](std::uint64_t from, std::uint64_t to) {
      if (from < to) split_wide(from, to, visit);
    };
    for_each_page(start, size, [&](std::uint64_t number, std::uint32_t from, std::uint32_t to) {
      const std::uint64_t base = number << kPageBits;
      const Page* page = page_of(number);
      std::uint32_t done = from;
      if (page != nullptr)
        for (auto at = page->first_behind(from); at != page->ranges.end() && at->start < to; ++at) {
          const std::uint32_t begin = std::max(from, at->start), end = std::min(to, at->end);
          gap(base + done, base + begin);
          visit(at->bucket, base + begin, std::uint64_t{end - begin});
          done = end;
        }
      gap(base + done, base + to);
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
    BucketId find(std::uint32_t offset) const {
      const auto at = first_behind(offset);
      return at != ranges.end() && at->start <= offset ? at->bucket : kNoBucket;
    }
    void insert(Range range);
    void cut(std::uint32_t start, std::uint32_t end);
  };
  struct Wide {
    std::uint64_t start;
    std::uint64_t end;
    BucketId bucket;
  };
  using WideRanges = std::map<std::uint64_t, Wide>;  // by start

  const Page* page_of(std::uint64_t number) {
    return number == last_number_ ? last_ : look_up(number);
  }
  const Page* look_up(std::uint64_t number);
  const Wide* wide_at(std::uint64_t address) {
    if (address - last_wide_.start < last_wide_.end - last_wide_.start) return &last_wide_;
    return look_up_wide(address);
  }
  const Wide* look_up_wide(std::uint64_t address);
  WideRanges::const_iterator first_wide_behind(std::uint64_t address) const;
  void forget();
  void cut_pages(std::uint64_t start, std::uint64_t size);
  void cut_wide(std::uint64_t start, std::uint64_t end);
  Stretch gap_around(std::uint64_t address, const Page* page) const;
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
  template <typename Visit>
  void split_wide(std::uint64_t from, std::uint64_t to, Visit& visit) {
    for (auto at = first_wide_behind(from); at != wide_.end() && at->second.start < to; ++at) {
      const std::uint64_t begin = std::max(from, at->second.start);
      const std::uint64_t end = std::min(to, at->second.end);
      if (begin > from) visit(kNoBucket, from, begin - from);
      visit(at->second.bucket, begin, end - begin);
      from = end;
    }
    if (from < to) visit(kNoBucket, from, to - from);
  }

  std::unordered_map<std::uint64_t, std::unique_ptr<Page>> pages_;
  std::set<std::uint64_t> numbers_;  // of the pages
  WideRanges wide_;
  std::uint64_t last_number_ = ~0ULL;
  const Page* last_ = nullptr;
  std::unique_ptr<Starts> starts_;  // nullptr unless somebody asks for them
  Wide last_wide_{0, 0, kNoBucket};
};

}  // namespace stallscope::probes
