// SPDX-License-Identifier: Apache-2.0
// One LRU memory of the same size beside pools, and what follows from comparing them.
//
// Shares that were right for one epoch are wrong for the next where a program turns to other data,
// and nothing that pools know of themselves says so. Each epoch moves the regret: the misses that
// the way not taken would have saved, since the last change. When it exceeds a bound the way
// changes. Falling back to LRU again doubles the bound for leaving it.
#pragma once

#include <algorithm>
#include <cstdint>

#include "stack/growing.h"
#include "stack/linked_order.h"

namespace stallscope::stack {

class Rival {
 public:
  explicit Rival(std::uint64_t memory, std::uint64_t threshold)
      : memory_(memory), bound_(std::max(threshold, memory / 8)) {}

  // Pages by number, in order; a new one is the next number.
  void access(std::uint32_t page) {
    order_.reserve(page + 1);
    resident_.reserve(page + 1);
    if (resident_[page]) return order_.renew(page);
    ++misses_;
    if (order_.size() == memory_) {
      const std::uint32_t oldest = order_.oldest();
      order_.remove(oldest);
      resident_[oldest] = false;
    }
    order_.add(page);
    resident_[page] = true;
  }

  // At the end of an epoch in which the pools missed so often, or would have. Whether pages are
  // thrown out together, by one LRU order, in the next.
  bool decide(std::uint64_t by_pools) {
    const auto lost = static_cast<std::int64_t>(by_pools) - static_cast<std::int64_t>(misses_);
    misses_ = 0;
    regret_ = std::max<std::int64_t>(0, regret_ + (together_ ? -lost : lost));
    const std::uint64_t bound = together_ ? bound_ << falls_ : bound_;
    if (static_cast<std::uint64_t>(regret_) <= bound) return together_;
    regret_ = 0;
    together_ = !together_;
    if (together_) falls_ = std::min(falls_ + 1, kMostFalls);
    return together_;
  }
  bool together() const { return together_; }

 private:
  static constexpr unsigned kMostFalls = 16;
  LinkedOrder order_;
  Growing<bool> resident_;
  std::uint64_t memory_, bound_, misses_ = 0;
  std::int64_t regret_ = 0;
  unsigned falls_ = 0;
  bool together_ = false;
};

}  // namespace stallscope::stack
