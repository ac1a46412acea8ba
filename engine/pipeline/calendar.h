// SPDX-License-Identifier: Apache-2.0
// Which units are taken in which cycle, and when entries of issue queues become free. One word a
// cycle: four bytes that count operations issued to each kind of unit, four that count entries
// left. Cycles that lie behind the last dispatch are forgotten, so that nothing is done for cycles
// in which nothing happens but to add up their words.
#pragma once

#include <cstdint>
#include <vector>

#include "pipeline/core.h"

namespace stallscope::pipeline {

class Calendar {
 public:
  explicit Calendar(const CoreConfig& config) : words_(kCycles) {
    for (unsigned i = 0; i < kUnits; ++i) {
      units_[i] = config.units[i];
      limits_[i] = config.queues[i];
    }
  }

  // Time goes on to this cycle: entries left before it are free.
  void advance(std::uint64_t cycle) {
    if (cycle <= now_) return;
    std::uint64_t left = 0;
    const std::uint64_t steps = cycle - now_ < kCycles ? cycle - now_ : kCycles;
    for (std::uint64_t i = 0; i < steps; ++i) {
      std::uint64_t& word = words_[(now_ + i) & kMask];
      left += word >> 32;
      word = 0;
    }
    queued_ -= left;
    now_ = cycle;
  }

  // Whether this many entries (a byte for each kind of unit) are free now.
  bool has_room(std::uint32_t wanted) const {
    for (unsigned i = 0; i < kUnits; ++i)
      if ((queued_ >> (8 * i) & 0xff) + (wanted >> (8 * i) & 0xff) > limits_[i]) return false;
    return true;
  }
  void enter(std::uint32_t wanted) { queued_ += wanted; }
  std::uint64_t queued(Unit unit) const {
    return queued_ >> (8 * static_cast<unsigned>(unit)) & 0xff;
  }

  // The first cycle from `earliest` on in which a unit is free for this long; it is taken.
  std::uint64_t take(unsigned unit, std::uint64_t earliest, unsigned occupies) {
    const unsigned shift = 8 * unit;
    std::uint64_t cycle = earliest;
    for (unsigned found = 0; found < occupies && cycle < now_ + kFar;) {
      if ((words_[cycle & kMask] >> shift & 0xff) < units_[unit]) {
        ++found;
        ++cycle;
        continue;
      }
      found = 0;
      ++cycle;
    }
    if (cycle >= now_ + kFar) return earliest;  // too far ahead to tell who else is there
    for (unsigned i = 1; i <= occupies; ++i) words_[(cycle - i) & kMask] += 1ULL << shift;
    return cycle - occupies;
  }
  // Its entry of the queue is left in this cycle, which does not lie behind.
  void leave(unsigned unit, std::uint64_t cycle) {
    const std::uint64_t known = cycle < now_ + kFar ? cycle : now_ + kFar;
    words_[known & kMask] += 1ULL << (32 + 8 * unit);
  }

 private:
  static constexpr std::uint64_t kCycles = 1 << 15, kMask = kCycles - 1, kFar = kCycles - 512;

  std::vector<std::uint64_t> words_;
  std::uint64_t now_ = 0;
  std::uint64_t queued_ = 0;
  std::uint32_t units_[kUnits], limits_[kUnits];
};

}  // namespace stallscope::pipeline
