// SPDX-License-Identifier: Apache-2.0
// For policies of several lists: which list a page is in and where, in one word a page. A page is
// in one list at a time.
#pragma once

#include <array>

#include "stack/growing.h"
#include "stack/lazy_list.h"

namespace stallscope::stack {

template <unsigned kLists>
class PlacedLists {
  static_assert(kLists <= 4);

 public:
  static constexpr std::uint32_t kNowhere = 7;

  // The list that holds the page, or kNowhere.
  std::uint32_t list_of(std::uint32_t page) const {
    return kNowhere - (places_[page] >> kSlotBits);
  }
  std::uint32_t size(std::uint32_t list) const { return lists_[list].size(); }

  // Wherever the page was, it becomes the newest of `list`.
  void move(std::uint32_t page, std::uint32_t list) {
    remove(page);
    const std::uint32_t slot = lists_[list].push(
        page, [this, list](auto p, auto s) { return places_[p] == word(list, s); },
        [this, list](auto p, auto s) { places_[p] = word(list, s); });
    places_[page] = word(list, slot);
  }
  void remove(std::uint32_t page) {
    const std::uint32_t from = list_of(page);
    if (from == kNowhere) return;
    lists_[from].left();
    places_[page] = 0;
  }
  // The oldest of a list that is not empty.
  std::uint32_t oldest(std::uint32_t list) {
    places_.prefetch(lists_[list].soon());
    return lists_[list].oldest(
        [this, list](auto p, auto s) { return places_[p] == word(list, s); });
  }

  void reserve(std::uint32_t pages) { places_.reserve(pages); }
  STALLSCOPE_INLINE void prefetch(std::uint32_t page) const { places_.prefetch(page); }
  std::uint64_t bytes() const {
    std::uint64_t sum = places_.bytes();
    for (const LazyList& list : lists_) sum += list.bytes();
    return sum;
  }

 private:
  static constexpr unsigned kSlotBits = 29;
  // Never 0 for a list, so that fresh memory says nowhere.
  static std::uint32_t word(std::uint32_t list, std::uint32_t slot) {
    return (kNowhere - list) << kSlotBits | slot;
  }

  Growing<std::uint32_t> places_;
  std::array<LazyList, kLists> lists_;
};

}  // namespace stallscope::stack
