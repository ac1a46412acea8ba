// SPDX-License-Identifier: Apache-2.0
// The LRU stack over every page ever seen, with exact reuse distances and the exact LRU curve.
//
// The reuse distance of a reference is the number of other pages referenced since the last
// reference to its page: 0 for the page on top. Memory for m pages under LRU hits when the distance
// is below m (Mattson et al. 1970), so one histogram of distances is the curve at every size.
//
// References are appended in batches and the curve can be read between any two; the stack goes on
// over the ends of epochs. One thread at a time.
// Limits: 2^29 pages. About 16/load + 4 to 8 + 1 bytes a page, load being between 3/8 and 3/4; with
// epochs 8 more for their sum.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"
#include "stack/distance_counts.h"
#include "stack/page_table.h"
#include "stack/recency_bits.h"

namespace stallscope::stack {

class LruStack {
 public:
  explicit LruStack(std::uint32_t history = 16) : counts_(history) {}

  Status append(std::span<const std::uint64_t> pages);
  // The same, and says each reference's distance; `distances` has room for as many.
  Status append(std::span<const std::uint64_t> pages, std::uint32_t* distances);

  const DistanceCounts& counts() const { return counts_; }
  void end_epoch() { counts_.end_epoch(); }
  std::uint64_t distinct() const { return table_.size(); }
  std::uint64_t bytes() const { return table_.bytes() + bits_.bytes() + counts_.bytes(); }

  // Every page, the most recently used first.
  std::vector<std::uint64_t> pages() const;

 private:
  template <typename Sink>
  Status append_to(std::span<const std::uint64_t> pages, Sink sink);
  void renumber();

  PageTable table_;
  RecencyBits bits_{1u << 16};
  DistanceCounts counts_;
};

}  // namespace stallscope::stack
