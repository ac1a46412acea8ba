// SPDX-License-Identifier: Apache-2.0
// A list of pages from oldest to newest that is never linked: a page's place in a ring is what the
// owner remembers of it, and moving or removing a page leaves its old entry behind as a stale one,
// to be skipped when it becomes the oldest. So a move touches one word of the page and appends to
// the ring, where a linked list touches three pages. Stale entries are swept out when the ring is
// full, which costs a constant per push.
//
// The owner gives `at(page, slot)`, whether the page's current entry is the one in `slot`, and
// `moved(page, slot)`, to remember a new slot. size() counts pages, the owner calls left() when one
// is moved away or removed.
#pragma once

#include <cstdint>
#include <utility>

#include "stack/page_table.h"

namespace stallscope::stack {

class LazyList {
 public:
  std::uint32_t size() const { return size_; }
  std::uint64_t bytes() const { return ring_.size() * sizeof(std::uint32_t); }

  // Appends the newest, and returns its slot.
  template <typename At, typename Moved>
  std::uint32_t push(std::uint32_t page, const At& at, const Moved& moved) {
    if (used_ == ring_.size()) [[unlikely]]
      make_room(at, moved);
    const std::uint32_t slot = next_;
    ring_[slot] = page;
    next_ = after(slot);
    ++used_;
    ++size_;
    return slot;
  }
  void left() { --size_; }

  // Skips stale entries; then the oldest page and its slot. There must be one.
  template <typename At>
  std::uint32_t oldest(const At& at) {
    while (!at(ring_[first_], first_)) skip();
    return ring_[first_];
  }
  std::uint32_t first_slot() const { return first_; }
  // Removes the oldest, which oldest() has found.
  void drop_oldest() {
    skip();
    --size_;
  }
  template <typename At>
  std::uint32_t pop(const At& at) {
    const std::uint32_t page = oldest(at);
    drop_oldest();
    return page;
  }
  // A page that will be among the oldest soon, for a hint.
  std::uint32_t soon() const {
    const std::uint64_t slot = std::uint64_t{first_} + 8;
    return slot < ring_.size() ? ring_[slot] : 0;
  }

 private:
  std::uint32_t after(std::uint32_t slot) const { return slot + 1 == ring_.size() ? 0 : slot + 1; }
  void skip() {
    first_ = after(first_);
    --used_;
  }
  // In place when at most half of the ring is current, so that the next sweep is that far away.
  template <typename At, typename Moved>
  void make_room(const At& at, const Moved& moved) {
    const bool grows = ring_.size() < std::uint64_t{size_} * 2 + 2;
    LargeArray<std::uint32_t> larger;
    if (grows) larger = LargeArray<std::uint32_t>(std::uint64_t{size_} * 3 + 64);
    std::uint32_t* const to = grows ? larger.data() : ring_.data();
    std::uint32_t kept = 0;
    // Entries before first_ are behind those after it: the oldest comes to slot 0 only in a new
    // ring, in place the list stays where it begins.
    std::uint32_t target = grows ? 0 : first_;
    for (std::uint32_t from = first_, i = 0; i < used_; ++i, from = after(from)) {
      const std::uint32_t page = ring_[from];
      if (!at(page, from)) continue;
      to[target] = page;
      moved(page, target);
      ++kept;
      target = grows ? target + 1 : after(target);
    }
    if (grows) {
      ring_ = std::move(larger);
      first_ = 0;
    }
    next_ = target;
    used_ = kept;
  }

  LargeArray<std::uint32_t> ring_;
  std::uint32_t first_ = 0, next_ = 0, used_ = 0, size_ = 0;
};

}  // namespace stallscope::stack
