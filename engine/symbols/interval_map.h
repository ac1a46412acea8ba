// SPDX-License-Identifier: Apache-2.0
// From an address to the innermost of many overlapping ranges. Built once, then read.
#pragma once

#include <cstdint>
#include <vector>

namespace stallscope::symbols {

inline constexpr std::uint32_t kNothing = 0xFFFF'FFFF;

struct Interval {
  std::uint64_t low;
  std::uint64_t high;      // one past the end
  std::uint32_t priority;  // the higher one wins; among equals the one with the higher value
  std::uint32_t value;
};

class IntervalMap {
 public:
  // Ranges need not nest: damaged input only changes which value wins.
  static IntervalMap build(std::vector<Interval> intervals);

  // kNothing when no range covers the address.
  std::uint32_t find(std::uint64_t address) const;
  bool empty() const { return starts_.empty(); }

 private:
  void close(std::uint64_t at, std::uint32_t value);
  std::vector<std::uint64_t> starts_;  // piece i is [starts_[i], starts_[i + 1])
  std::vector<std::uint32_t> values_;
};

}  // namespace stallscope::symbols
