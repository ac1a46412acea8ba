// SPDX-License-Identifier: Apache-2.0
// From an address to the stat bucket that holds it: all heap blocks of one allocation path share a
// bucket, a variable is one, and so on. Built for millions of small blocks that come and go.
//
// Memory is cut into pages. A page keeps the ranges that begin or lie in it, sorted; a page that
// one range covers whole keeps just that. Ranges never overlap; a new one replaces what it covers.
#pragma once

#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

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
    BucketId find(std::uint32_t offset) const;
    BucketId find_most(std::uint32_t start, std::uint32_t end) const;
    void insert(Range range);
    void cut(std::uint32_t start, std::uint32_t end);
  };

  const Page* look_up(std::uint64_t number);
  template <typename Visit>
  static void for_each_page(std::uint64_t start, std::uint64_t size, Visit&& visit);

  std::unordered_map<std::uint64_t, std::unique_ptr<Page>> pages_;
  std::uint64_t last_number_ = ~0ULL;
  const Page* last_ = nullptr;
};

}  // namespace stallscope::probes
