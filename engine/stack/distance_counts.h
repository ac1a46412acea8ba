// SPDX-License-Identifier: Apache-2.0
// How often each stack distance came, in epochs, and the curves that follow. A reference at
// distance d (0 is the top of the stack) hits in memories of more than d pages; a cold one misses
// in all.
//
// An epoch counts on its own; ending it keeps its counts among the last `history` ones and begins
// the next.
#pragma once

#include <cstdint>
#include <deque>
#include <span>
#include <utility>
#include <vector>

#include "base/result.h"
#include "stack/page_table.h"

namespace stallscope::stack {

inline constexpr std::uint32_t kCold = UINT32_MAX;  // the distance of a first reference

// Misses at each memory size from 0 to the number of distances, from their counts and the number of
// references that miss at every size.
std::vector<std::uint64_t> curve_of(std::span<const std::uint64_t> distances, std::uint64_t cold);

class DistanceCounts {
 public:
  explicit DistanceCounts(std::uint32_t history) : history_(history) {}

  // Before `references` are counted, whose distances are below `pages`. At most 2^31 at a time.
  void expect(std::uint64_t references, std::uint64_t pages) {
    if (pages > counts_.size()) make_room(pages);
    if ((unfolded_ += references) > UINT32_MAX) fold(references);
  }
  std::uint64_t room() const { return counts_.size(); }  // distances that can be counted
  std::uint32_t* counts() const { return counts_.data(); }
  void add_totals(std::uint64_t references, std::uint64_t cold, std::uint64_t pages) {
    epoch_.references += references;
    epoch_.cold += cold;
    pages_ = pages;
  }

  std::uint64_t references() const { return total_.references + epoch_.references; }
  std::uint64_t epoch_references() const { return epoch_.references; }
  std::uint64_t bytes() const;  // without the history

  // Misses at each size from 0 to the number of pages: of everything, of the epoch under way, and
  // of an ended epoch that is still kept (0 is the latest, kept()-1 the oldest).
  std::vector<std::uint64_t> curve() const;
  std::vector<std::uint64_t> epoch_curve() const;
  Result<std::vector<std::uint64_t>> ended_curve(std::uint64_t back) const;

  void end_epoch();
  std::uint64_t epochs() const { return epochs_; }  // ended ones
  std::uint64_t kept() const { return ended_.size(); }

 private:
  struct Totals {
    std::uint64_t references = 0;
    std::uint64_t cold = 0;
  };
  struct Ended {
    std::vector<std::pair<std::uint32_t, std::uint64_t>> distances;  // distance, count
    std::uint64_t cold = 0;
    std::uint64_t pages = 0;
  };
  void make_room(std::uint64_t pages);
  void fold(std::uint64_t references);  // counts_ into epoch_counts_
  std::vector<std::uint64_t> epoch_counts() const;

  // Of the epoch, in 32 bits for the caches' sake; folded before they can overflow.
  LargeArray<std::uint32_t> counts_{1u << 12};
  std::uint64_t unfolded_ = 0;  // references since the last fold
  std::vector<std::uint64_t> epoch_counts_, total_counts_;
  Totals total_, epoch_;
  std::uint64_t pages_ = 0;
  std::uint32_t history_;
  std::uint64_t epochs_ = 0;
  std::deque<Ended> ended_;
};

}  // namespace stallscope::stack
