// SPDX-License-Identifier: Apache-2.0
// The LRU stack over every page ever seen, with exact reuse distances and the exact LRU curve.
//
// The reuse distance of a reference is the number of other pages referenced since the last
// reference to its page: 0 for the page on top. Memory for m pages under LRU hits when the distance
// is below m (Mattson et al. 1970), so one histogram of distances is the curve at every size.
//
// References are appended in batches and the curve can be read between any two. An epoch collects a
// histogram of its own; ending it keeps the histogram among the last `history` ones and begins the
// next; the stack itself goes on. One thread at a time.
// Limits: 2^29 pages. About 16/load + 12 + 1 bytes a page, load being between 3/8 and 3/4.
#pragma once

#include <cstdint>
#include <deque>
#include <span>
#include <vector>

#include "base/result.h"
#include "stack/page_table.h"
#include "stack/recency_bits.h"

namespace stallscope::stack {

inline constexpr std::uint32_t kCold = UINT32_MAX;  // the distance of a first reference

// Misses at each memory size from 0 to the number of pages, from counts of distances and the number
// of references that miss at every size.
std::vector<std::uint64_t> curve_of(std::span<const std::uint64_t> distances, std::uint64_t cold);

class LruStack {
 public:
  explicit LruStack(std::uint32_t history = 16) : history_(history) {}

  Status append(std::span<const std::uint64_t> pages);
  // The same, and says each reference's distance; `distances` has room for as many.
  Status append(std::span<const std::uint64_t> pages, std::uint32_t* distances);

  std::uint64_t references() const { return total_.references + epoch_.references; }
  std::uint64_t distinct() const { return table_.size(); }
  std::uint64_t bytes() const;  // memory in use, without the history

  // Misses at each size from 0 to distinct(): of everything, and of the epoch under way.
  std::vector<std::uint64_t> curve() const;
  std::vector<std::uint64_t> epoch_curve() const;

  void end_epoch();
  std::uint64_t epochs() const { return epochs_; }  // ended ones
  std::uint64_t kept() const { return ended_.size(); }
  // Of an ended epoch that is still kept: 0 is the latest, kept()-1 the oldest.
  Result<std::vector<std::uint64_t>> ended_curve(std::uint64_t back) const;

  // Every page, the most recently used first.
  std::vector<std::uint64_t> pages() const;

 private:
  struct Totals {
    std::uint64_t references = 0;
    std::uint64_t cold = 0;
  };
  struct Ended {
    std::vector<std::pair<std::uint32_t, std::uint64_t>> distances;  // distance, count
    Totals totals;
    std::uint64_t pages = 0;
  };
  template <typename Sink>
  Status append_to(std::span<const std::uint64_t> pages, Sink sink);
  void renumber();
  void make_room();  // for as many distances as there are pages
  void fold();       // counts_ into epoch_counts_
  std::vector<std::uint64_t> epoch_counts() const;

  PageTable table_;
  RecencyBits bits_{1u << 16};
  // Of the epoch's distances, in 32 bits for the caches' sake; folded before they can overflow.
  LargeArray<std::uint32_t> counts_{1u << 12};
  std::uint64_t unfolded_ = 0;  // references since the last fold
  std::vector<std::uint64_t> epoch_counts_, total_counts_;
  Totals total_, epoch_;
  std::uint64_t last_page_ = 0;
  std::uint32_t history_;
  std::uint64_t epochs_ = 0;
  std::deque<Ended> ended_;
};

}  // namespace stallscope::stack
