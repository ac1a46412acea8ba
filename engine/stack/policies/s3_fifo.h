// SPDX-License-Identifier: Apache-2.0
// S3-FIFO (Yang et al., SOSP 2023): new pages pass through a small queue of a tenth of the memory;
// those referenced more than once there, and those that come back while still remembered, live in
// the main queue, where each reference (up to three) buys another round. As many pages are
// remembered as the main queue holds.
#pragma once

#include <algorithm>

#include "stack/policies/placed.h"
#include "stack/policy.h"

namespace stallscope::stack {

class S3Fifo {
 public:
  static constexpr PolicyFacts kFacts{
      "s3-fifo", "a small queue on trial, a main queue with second chances", 2};
  explicit S3Fifo(std::uint32_t memory)
      : memory_(memory), small_(std::max(1u, memory / 10)), main_(memory - small_) {}

  bool access(std::uint32_t page) {
    victim_ = kNone;
    const std::uint32_t list = lists_.list_of(page);
    if (list == kSmall || list == kMain) {
      references_[page] = static_cast<std::uint8_t>(std::min(references_[page] + 1, 3));
      return true;
    }
    if (lists_.size(kSmall) + lists_.size(kMain) == memory_) evict();
    // The page may have been forgotten while room was made.
    lists_.move(page, lists_.list_of(page) == kGhost ? kMain : kSmall);
    references_[page] = 0;
    return false;
  }
  std::uint32_t victim() const { return victim_; }
  void reserve(std::uint32_t pages) {
    lists_.reserve(pages);
    references_.reserve(pages);
  }
  STALLSCOPE_INLINE void prefetch(std::uint32_t page) const {
    lists_.prefetch(page);
    references_.prefetch(page);
  }
  std::uint64_t bytes() const { return lists_.bytes() + references_.bytes(); }

 private:
  enum List : std::uint32_t { kSmall, kMain, kGhost };

  void evict() {
    if (lists_.size(kSmall) >= small_)
      evict_small();
    else
      evict_main();
  }
  void evict_small() {
    while (victim_ == kNone && lists_.size(kSmall) > 0) {
      const std::uint32_t page = lists_.oldest(kSmall);
      if (references_[page] > 1) {
        references_[page] = 0;
        lists_.move(page, kMain);
        if (lists_.size(kMain) > main_) evict_main();
      } else {
        victim_ = page;
        if (lists_.size(kGhost) == main_) lists_.remove(lists_.oldest(kGhost));
        lists_.move(page, kGhost);
      }
    }
    if (victim_ == kNone) evict_main();
  }
  void evict_main() {
    while (victim_ == kNone) {
      const std::uint32_t page = lists_.oldest(kMain);
      if (references_[page] > 0) {
        --references_[page];
        lists_.move(page, kMain);
      } else {
        victim_ = page;
        lists_.remove(page);
      }
    }
  }

  PlacedLists<3> lists_;
  Growing<std::uint8_t> references_;
  std::uint32_t memory_, small_, main_, victim_ = kNone;
};

}  // namespace stallscope::stack
