// SPDX-License-Identifier: Apache-2.0
// ARC (Megiddo and Modha, FAST 2003): recency and frequency share the memory in a proportion that
// hits on remembered pages adapt. Names as in the paper: T1 and T2 are in memory, B1 and B2 are
// remembered only, p is the target for T1.
#pragma once

#include <algorithm>

#include "stack/policies/placed.h"
#include "stack/policy.h"

namespace stallscope::stack {

class Arc {
 public:
  static constexpr PolicyFacts kFacts{
      "arc", "recent and frequent pages share the memory as misses teach", 1};
  explicit Arc(std::uint32_t memory) : c_(memory) {}

  bool access(std::uint32_t page) {
    victim_ = kNone;
    const std::uint32_t list = lists_.list_of(page);
    if (list == T1 || list == T2) {
      lists_.move(page, T2);
      return true;
    }
    if (list == B1 || list == B2) {
      adapt(list);
      replace(list == B2);
      lists_.move(page, T2);
    } else {
      forget();
      lists_.move(page, T1);
    }
    return false;
  }
  std::uint32_t victim() const { return victim_; }
  void reserve(std::uint32_t pages) { lists_.reserve(pages); }
  STALLSCOPE_INLINE void prefetch(std::uint32_t page) const { lists_.prefetch(page); }
  std::uint64_t bytes() const { return lists_.bytes(); }

 private:
  enum List : std::uint32_t { T1, T2, B1, B2 };
  std::uint32_t size(List list) const { return lists_.size(list); }

  void adapt(std::uint32_t ghost) {
    const double b1 = size(B1), b2 = size(B2);
    if (ghost == B1)
      p_ = std::min<double>(p_ + std::max(1.0, b2 / b1), c_);
    else
      p_ = std::max(p_ - std::max(1.0, b1 / b2), 0.0);
  }
  void replace(bool in_b2) {
    const std::uint32_t t1 = size(T1);
    const bool from_t1 = t1 >= 1 && (t1 > p_ || (in_b2 && t1 == p_));
    victim_ = lists_.oldest(from_t1 ? T1 : T2);
    lists_.move(victim_, from_t1 ? B1 : B2);
  }
  // Makes room for a page that no list knows.
  void forget() {
    const std::uint64_t l1 = std::uint64_t{size(T1)} + size(B1);
    const std::uint64_t all = l1 + size(T2) + size(B2);
    if (l1 == c_) {
      if (size(T1) < c_) {
        lists_.remove(lists_.oldest(B1));
        replace(false);
      } else {
        victim_ = lists_.oldest(T1);
        lists_.remove(victim_);
      }
    } else if (all >= c_) {
      if (all == std::uint64_t{c_} * 2) lists_.remove(lists_.oldest(B2));
      replace(false);
    }
  }

  PlacedLists<4> lists_;
  std::uint32_t c_, victim_ = kNone;
  double p_ = 0;
};

}  // namespace stallscope::stack
