// SPDX-License-Identifier: Apache-2.0
// Region: streams, and the lines around a miss that were used around most of the misses before it,
// as when each node of a list lies across two lines. Real ones learn that for each instruction; an
// access carries no instruction address here, so one pattern is learnt for all, and soon unlearnt.
#pragma once

#include <array>
#include <cstdlib>

#include "machine/prefetchers/stream.h"

namespace stallscope::machine {

class Region : public Prefetcher {
 public:
  Region(std::uint32_t degree, std::uint64_t page_lines) : stream_(degree, page_lines, true) {}

  void observe(std::uint64_t line, std::vector<std::uint64_t>& wanted) override {
    stream_.observe(line, wanted);
    if (!wanted.empty()) return;  // it belongs to a stream
    for (Miss& before : recent_) {
      const auto away = static_cast<std::int64_t>(line - before.line);
      if (!before.used || std::llabs(away) > kReach) continue;
      before.around |= 1u << (away + kReach);
      return;
    }
    Miss& oldest = recent_[next_++ % kRecent];
    if (oldest.used) learn(oldest.around);
    oldest = {line, 0, true};
    for (std::int64_t away = 1; away <= kReach; ++away)
      for (const std::int64_t there : {away, -away})
        if (often_[static_cast<std::size_t>(there + kReach)] >= kOften)
          wanted.push_back(line + static_cast<std::uint64_t>(there));
  }

 private:
  static constexpr std::int64_t kReach = 5;   // lines to either side
  static constexpr std::size_t kRecent = 32;  // misses whose neighbours are awaited
  static constexpr std::uint8_t kMost = 16;   // misses that are remembered, about
  static constexpr std::uint8_t kOften = kMost / 2;
  struct Miss {
    std::uint64_t line = 0;
    std::uint32_t around = 0;  // a bit for each line within reach that was used since
    bool used = false;
  };

  void learn(std::uint32_t around) {
    for (std::size_t i = 0; i < often_.size(); ++i) {
      if (around >> i & 1)
        often_[i] += often_[i] < kMost;
      else
        often_[i] -= often_[i] > 0;
    }
  }

  Stream stream_;
  std::array<Miss, kRecent> recent_{};
  std::size_t next_ = 0;
  std::array<std::uint8_t, 2 * kReach + 1> often_{};
};

}  // namespace stallscope::machine
