// SPDX-License-Identifier: Apache-2.0
// The part of a PMU that follows one load at a time through the processor, as Itanium's event
// address registers do: when it is free it lets a random number of loads pass, tags the next one,
// and sees no other until that one is done. What it tells of a load is exact; which loads it tells
// of is a choice with a bias: loads that issue while a slow one is followed are never seen, and
// stores never.
//
// Loads issue one instruction after the other and do not wait for each other, which is the most
// that can pass unseen. On a processor that stops at the first use of a missing value less does.
#pragma once

#include <cstdint>

#include "probes/random.h"

namespace stallscope::probes {

class TagUnit {
 public:
  static constexpr std::uint64_t kGap = 16;  // loads from free to tagged, on average

  explicit TagUnit(std::uint64_t seed) : random_(seed), left_(random_.around(kGap)) {}

  // A load issues at `clock` (instructions executed before it); whether the unit follows it. Then
  // done() must come before the next load.
  bool issue(std::uint64_t clock) {
    ++loads_;
    if (clock < free_at_ || --left_ > 0) return false;
    tagged_at_ = clock;
    ++tags_;
    return true;
  }
  void done(std::uint32_t latency) {
    free_at_ = tagged_at_ + latency;
    left_ = random_.around(kGap);
  }

  std::uint64_t loads() const { return loads_; }
  std::uint64_t tags() const { return tags_; }

 private:
  Random random_;
  std::uint64_t left_;
  std::uint64_t tagged_at_ = 0;
  std::uint64_t free_at_ = 0;
  std::uint64_t loads_ = 0;
  std::uint64_t tags_ = 0;
};

}  // namespace stallscope::probes
