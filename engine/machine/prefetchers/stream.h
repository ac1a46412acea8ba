// SPDX-License-Identifier: Apache-2.0
// Stream: up to sixteen runs of lines that grow upwards or downwards. Two misses within a window
// start a run; from then on it is kept `degree` lines ahead of the last use. Long degrees are
// reached by doubling: a run that has just begun is four lines ahead, as it may be over soon.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <span>

#include "machine/prefetcher.h"

namespace stallscope::machine {

class Stream : public Prefetcher {
 public:
  // With `keeps`, runs that were found are kept apart from what may become one, so that misses all
  // over the place do not make it forget them.
  Stream(std::uint32_t degree, std::uint64_t, bool keeps = false)
      : degree_(degree), fresh_(keeps ? kRuns : 0), end_(fresh_ + kRuns) {}

  void observe(std::uint64_t line, std::vector<std::uint64_t>& wanted) override {
    ++now_;
    for (Run& run : std::span(runs_).first(end_)) {
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
    if (&run - runs_.data() < static_cast<std::ptrdiff_t>(fresh_) || fresh_ == 0) return;
    oldest(0, fresh_) = run;
    run = {};
  }

  void start(std::uint64_t line) {
    for (const Run& run : std::span(runs_).first(end_))
      if (run.used && run.last == line) return;
    oldest(fresh_, end_) = {line, now_, 0, 0};
  }

  Run& oldest(std::size_t begin, std::size_t end) {
    return *std::min_element(runs_.begin() + begin, runs_.begin() + end,
                             [](const Run& a, const Run& b) { return a.used < b.used; });
  }

  std::uint32_t degree_;
  std::size_t fresh_, end_;  // where runs begin and end that may begin
  std::uint64_t now_ = 0;
  std::array<Run, 2 * kRuns> runs_{};
};

}  // namespace stallscope::machine
