// SPDX-License-Identifier: Apache-2.0
// The bus between first caches and what is behind them, and the channel of memory: each does one
// thing after the other.
#pragma once

#include <algorithm>
#include <cstdint>

namespace stallscope::session {

class Resource {
 public:
  // Takes it at `from` or when it is free, for so many cycles; when it began.
  std::uint64_t take(std::uint64_t from, std::uint64_t cycles) {
    const std::uint64_t start = std::max(from, free_);
    waited_ += start - from;
    busy_ += cycles;
    free_ = start + cycles;
    return start;
  }
  std::uint64_t free_at() const { return free_; }
  void hold_until(std::uint64_t cycle) { free_ = std::max(free_, cycle); }
  std::uint64_t busy() const { return busy_; }
  std::uint64_t waited() const { return waited_; }

 private:
  std::uint64_t free_ = 0, busy_ = 0, waited_ = 0;
};

}  // namespace stallscope::session
