// SPDX-License-Identifier: Apache-2.0
// Stream: up to sixteen runs of lines that grow upwards or downwards. Two misses within a window
// start a run; from then on it is kept `degree` lines ahead of the last use. Long degrees are
// reached by doubling: a run that has just begun is four lines ahead, as it may be over soon.
#pragma once

#include <algorithm>
#include <array>

#include "machine/prefetcher.h"

namespace stallscope::machine {

class Stream : public Prefetcher {
 public:
  Stream(std::uint32_t degree, std::uint64_t) : degree_(degree) {}

  void observe(std::uint64_t line, std::vector<std::uint64_t>& wanted) override {
    ++now_;
    for (Run& run : runs_) {
      if (!run.used || line == run.last) continue;
      const std::uint64_t up = line - run.last, down = run.last - line;
      if (run.direction >= 0 && up <= kWindow) return follow(run, line, 1, wanted);
      if (run.direction <= 0 && down <= kWindow) return follow(run, line, -1, wanted);
    }
    start(line);
  }

 private:
  static constexpr std::uint32_t kRuns = 16;
  static constexpr std::uint64_t kWindow = 4;
  static constexpr std::uint32_t kFirst = 4;
  struct Run {
    std::uint64_t last = 0;
    std::uint64_t used = 0;  // when, 0 for never
    std::int64_t direction = 0;
    std::uint32_t ahead = 0;  // lines
  };

  void follow(Run& run, std::uint64_t line, std::int64_t direction,
              std::vector<std::uint64_t>& wanted) {
    const std::uint32_t ahead = std::min(degree_, run.ahead ? 2 * run.ahead : kFirst);
    run = {line, now_, direction, ahead};
    for (std::uint32_t i = 1; i <= ahead; ++i)
      wanted.push_back(line + static_cast<std::uint64_t>(direction) * i);
  }

  void start(std::uint64_t line) {
    Run* oldest = &runs_[0];
    for (Run& run : runs_) {
      if (run.used && run.last == line) return;
      if (run.used < oldest->used) oldest = &run;
    }
    *oldest = {line, now_, 0, 0};
  }

  std::uint32_t degree_;
  std::uint64_t now_ = 0;
  std::array<Run, kRuns> runs_{};
};

}  // namespace stallscope::machine
