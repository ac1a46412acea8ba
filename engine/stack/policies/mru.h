// SPDX-License-Identifier: Apache-2.0
// MRU: the page used most recently goes. That is always the page of the reference before, since
// every reference leaves its page in memory; so no order need be kept.
#pragma once

#include "stack/growing.h"
#include "stack/policy.h"

namespace stallscope::stack {

class Mru {
 public:
  static constexpr PolicyFacts kFacts{"mru", "the page used most recently goes; for loops", 1};
  explicit Mru(std::uint32_t memory) : memory_(memory) {}

  bool access(std::uint32_t page) {
    victim_ = kNone;
    const bool hit = resident_[page];
    if (!hit) {
      if (used_ < memory_) {
        ++used_;
      } else {
        victim_ = latest_;
        resident_[victim_] = false;
      }
      resident_[page] = true;
    }
    latest_ = page;
    return hit;
  }
  std::uint32_t victim() const { return victim_; }
  void reserve(std::uint32_t pages) { resident_.reserve(pages); }
  STALLSCOPE_INLINE void prefetch(std::uint32_t page) const { resident_.prefetch(page); }
  std::uint64_t bytes() const { return resident_.bytes(); }

 private:
  Growing<bool> resident_;
  std::uint32_t memory_, used_ = 0, latest_ = kNone, victim_ = kNone;
};

}  // namespace stallscope::stack
