// SPDX-License-Identifier: Apache-2.0
// CLOCK: a hand goes round the frames, takes away the mark of a page referenced since it last came
// by, and throws out the first page without one. (Corbató 1968. A page comes in without a mark.)
#pragma once

#include "stack/growing.h"
#include "stack/policy.h"

namespace stallscope::stack {

class Clock {
 public:
  static constexpr PolicyFacts kFacts{"clock", "a hand spares pages referenced since its last turn",
                                      1};
  explicit Clock(std::uint32_t memory) : memory_(memory) {}

  bool access(std::uint32_t page) {
    victim_ = kNone;
    if (states_[page] != kAbsent) {
      states_[page] = kMarked;
      return true;
    }
    if (used_ < memory_) {
      frames_.reserve(used_ + 1);
      frames_[used_++] = page;
    } else {
      for (; states_[frames_[hand_]] == kMarked; advance()) states_[frames_[hand_]] = kPlain;
      victim_ = frames_[hand_];
      states_[victim_] = kAbsent;
      frames_[hand_] = page;
      advance();
    }
    states_[page] = kPlain;
    return false;
  }
  std::uint32_t victim() const { return victim_; }
  void reserve(std::uint32_t pages) { states_.reserve(pages); }
  STALLSCOPE_INLINE void prefetch(std::uint32_t page) const { states_.prefetch(page); }
  std::uint64_t bytes() const { return states_.bytes() + frames_.bytes(); }

 private:
  enum State : std::uint8_t { kAbsent, kPlain, kMarked };
  void advance() {
    if (++hand_ == memory_) hand_ = 0;
  }

  Growing<State> states_;
  Growing<std::uint32_t> frames_;
  std::uint32_t memory_, used_ = 0, hand_ = 0, victim_ = kNone;
};

}  // namespace stallscope::stack
