// SPDX-License-Identifier: Apache-2.0
// From an address to the stat bucket that holds it: all heap blocks of one allocation path share a
// bucket, a variable is one, and so on. Built for millions of small blocks that come and go, and
// for a few ranges of any size.
//
// Memory is cut into pages. A page keeps the ranges that lie in it or reach into it, sorted; the
// whole pages of a wide range stand in a tree instead, as one. Ranges never overlap; a new one
// replaces what it covers. So a page that keeps a range lies in no wide one.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <vector>

#include "base/flat_map.h"
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

  // Each says whether a wide range was placed or touched. What goes beyond the end of memory is
  // left out.
  bool insert(std::uint64_t start, std::uint64_t size, BucketId bucket);
  // Removes whatever lies in [start, start+size).
  bool erase(std::uint64_t start, std::uint64_t size);

  BucketId find(std::uint64_t address) {
    if (is_in(last_wide_, address)) return last_wide_.bucket;
    const Page* page = page_of(address >> kPageBits);
    if (page != nullptr && !page->empty())
      return page->find(static_cast<std::uint32_t>(address & kPageMask));
    const Stretch* wide = look_up_wide(address);
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
    for_each_page(start, size, [&](std::uint64_t number, std::uint32_t from, std::uint32_t to) {
      const std::uint64_t base = number << kPageBits;
      const Page* page = page_of(number);
      if (page == nullptr || page->empty()) return split_wide(base + from, base + to, visit);
      std::uint32_t done = from;
      const auto gap = [&](std::uint32_t end) {
        if (done < end) visit(kNoBucket, base + done, std::uint64_t{end - done});
      };
      for (auto at = page->first_behind(from); at != page->end() && at->start < to; ++at) {
        const std::uint32_t begin = std::max<std::uint32_t>(from, at->start);
        const std::uint32_t end = std::min<std::uint32_t>(to, at->end);
        gap(begin);
        visit(at->bucket, base + begin, std::uint64_t{end - begin});
        done = end;
      }
      gap(to);
    });
  }

 private:
  static constexpr unsigned kPageBits = 12;
  static constexpr std::uint64_t kPageMask = (1u << kPageBits) - 1;
  static constexpr std::uint64_t kNoPage = ~std::uint64_t{0};

  struct Range {
    std::uint16_t start;  // within the page
    std::uint16_t end;
    BucketId bucket;
  };
  // Sorted ranges that never overlap.
  class Page {
   public:
    bool empty() const { return ranges_.empty(); }
    const Range* begin() const { return ranges_.data(); }
    const Range* end() const { return ranges_.data() + ranges_.size(); }
    // The first range that ends behind `offset`. Which way to go cannot be foreseen, so it is no
    // branch.
    const Range* first_behind(std::uint32_t offset) const {
      const Range* at = ranges_.data();
      std::size_t left = ranges_.size();
      if (left == 0) return at;
      for (; left > 1; left -= left / 2) at += at[left / 2 - 1].end <= offset ? left / 2 : 0;
      return at + (at->end <= offset);
    }
    BucketId find(std::uint32_t offset) const {
      const Range* at = first_behind(offset);
      return at != end() && at->start <= offset ? at->bucket : kNoBucket;
    }
    void insert(Range range);
    void cut(std::uint32_t start, std::uint32_t end);

   private:
    std::vector<Range> ranges_;
  };
  using WideRanges = std::map<std::uint64_t, Stretch>;  // by start

  static bool is_in(const Stretch& stretch, std::uint64_t address) {
    return address - stretch.start < stretch.end - stretch.start;
  }
  const Page* page_of(std::uint64_t number) {
    return number == last_number_ ? last_ : look_up(number);
  }
  const Page* look_up(std::uint64_t number);
  Page& make_page(std::uint64_t number);
  const Stretch* look_up_wide(std::uint64_t address);
  WideRanges::const_iterator first_wide_behind(std::uint64_t address) const;
  void forget();
  // A range where nothing is.
  void place(std::uint64_t start, std::uint64_t end, BucketId bucket);
  bool cut(std::uint64_t start, std::uint64_t size);  // whether that touched a wide range
  void cut_pages(std::uint64_t start, std::uint64_t size);
  bool cut_wide(std::uint64_t start, std::uint64_t end);
  Stretch gap_around(std::uint64_t address, const Page* page);
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

  FlatMap<Page> pages_;              // by number
  std::set<std::uint64_t> numbers_;  // of the pages
  WideRanges wide_;
  // What was found last, until something changes.
  std::uint64_t last_number_ = kNoPage;
  const Page* last_ = nullptr;
  Stretch last_wide_{kNoBucket, 0, 0};
  Stretch last_gap_{kNoBucket, 0, 0};  // of whole pages
  std::unique_ptr<Starts> starts_;     // nullptr unless somebody asks for them
};

}  // namespace stallscope::probes
