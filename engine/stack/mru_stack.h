// SPDX-License-Identifier: Apache-2.0
// MRU's own priority stack and its exact curve.
//
// MRU is a stack algorithm: the page to go is chosen by a priority that does not depend on the size
// of memory. In Mattson's update the page that is pushed down from the top is the most recently
// used of all, so it loses against every page on the way and falls to the place that the referenced
// page leaves, or to the bottom for a new page. So an update exchanges two pages, and the distance
// is the page's place.
//
// ReversedRank is what the original study took for MRU: the distance from the bottom of the LRU
// stack. It is not MRU (a loop over 200 pages has it miss each page once at every size) and stands
// here to be shown beside, never to allocate by.
#pragma once

#include <cstdint>
#include <span>

#include "base/result.h"
#include "stack/distance_counts.h"
#include "stack/growing.h"
#include "stack/lru_stack.h"
#include "stack/numbering.h"

namespace stallscope::stack {

class MruStack {
 public:
  explicit MruStack(std::uint32_t history = 16) : counts_(history) {}

  Status append(std::span<const std::uint64_t> pages);
  const DistanceCounts& counts() const { return counts_; }
  void end_epoch() { counts_.end_epoch(); }
  std::uint64_t distinct() const { return size_; }
  std::uint64_t bytes() const {
    return numbering_.bytes() + places_.bytes() + stack_.bytes() + counts_.bytes();
  }

 private:
  void access(std::uint32_t page);

  Numbering numbering_;
  Growing<std::uint32_t> places_, stack_;  // by page, by place
  std::uint32_t size_ = 0;
  DistanceCounts counts_;
};

class ReversedRank {
 public:
  explicit ReversedRank(std::uint32_t history = 16) : lru_(0), counts_(history) {}

  Status append(std::span<const std::uint64_t> pages);
  const DistanceCounts& counts() const { return counts_; }
  void end_epoch() { counts_.end_epoch(); }
  std::uint64_t distinct() const { return lru_.distinct(); }
  std::uint64_t bytes() const { return lru_.bytes() + counts_.bytes(); }

 private:
  LruStack lru_;
  DistanceCounts counts_;
};

}  // namespace stallscope::stack
