// SPDX-License-Identifier: Apache-2.0
// LRU: the page unused longest goes.
#pragma once

#include "stack/growing.h"
#include "stack/lazy_list.h"
#include "stack/policy.h"

namespace stallscope::stack {

class Lru {
 public:
  static constexpr PolicyFacts kFacts{"lru", "the page unused longest goes", 1};
  explicit Lru(std::uint32_t memory) : memory_(memory) {}

  bool access(std::uint32_t page) {
    victim_ = kNone;
    const bool hit = places_[page] != 0;
    const auto at = [this](std::uint32_t p, std::uint32_t slot) { return places_[p] == slot + 1; };
    const auto moved = [this](std::uint32_t p, std::uint32_t slot) { places_[p] = slot + 1; };
    if (hit) {
      list_.left();
    } else if (list_.size() == memory_) {
      victim_ = list_.pop(at);
      places_[victim_] = 0;
      places_.prefetch(list_.soon());
    }
    places_[page] = list_.push(page, at, moved) + 1;
    return hit;
  }
  std::uint32_t victim() const { return victim_; }
  void reserve(std::uint32_t pages) { places_.reserve(pages); }
  STALLSCOPE_INLINE void prefetch(std::uint32_t page) const { places_.prefetch(page); }
  std::uint64_t bytes() const { return places_.bytes() + list_.bytes(); }

 private:
  Growing<std::uint32_t> places_;  // slot + 1; 0: not in memory
  LazyList list_;
  std::uint32_t memory_, victim_ = kNone;
};

}  // namespace stallscope::stack
