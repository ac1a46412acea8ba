// SPDX-License-Identifier: Apache-2.0
// A recording at native speed while it is made: a clock, and what its samples tell so far.
//
// One thread at a time.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "base/result.h"
#include "sources/clock.h"
#include "sources/sampled_tree.h"
#include "sources/watchpoints.h"
#include "symbols/symbol_cache.h"

namespace stallscope::sources {

class Live {
 public:
  // The cache outlives it.
  static Result<std::unique_ptr<Live>> on_exec(pid_t process, const ClockOptions& options,
                                               const WatchOptions& watch,
                                               symbols::SymbolCache& symbols);
  static Result<std::unique_ptr<Live>> attach(pid_t process, const ClockOptions& options,
                                              const WatchOptions& watch,
                                              symbols::SymbolCache& symbols);

  // Takes what the kernel has written; often enough that its buffers do not fill up.
  void poll();
  // No more samples from here on; what has come is taken.
  void stop();

  const SampledTree& tree() const { return tree_; }
  SampledTree& tree() { return tree_; }
  unsigned skid() const { return skid_; }
  bool sees_kernel() const { return clock_->sees_kernel(); }
  std::uint64_t lost() const { return tree_.lost() + clock_->truncated(); }
  std::uint64_t damaged() const { return tree_.damaged() + clock_->damaged(); }
  std::uint64_t touch_cost() const { return touch_cost_; }  // nanoseconds; 0: nothing is watched
  std::uint64_t refused() const;                            // breakpoints that somebody else has
  std::uint64_t started() const { return started_; }        // on the monotonic clock, nanoseconds

 private:
  Live(const ClockOptions& options, const WatchOptions& watch, symbols::SymbolCache& symbols);
  static Result<std::unique_ptr<Live>> make(const ClockOptions& options, const WatchOptions& watch,
                                            symbols::SymbolCache& symbols);
  void watch();

  unsigned skid_;
  WatchOptions watch_;
  std::uint64_t touch_cost_;
  std::uint64_t started_;
  SampledTree tree_;
  std::optional<Clock> clock_;
  std::vector<Offered> offered_;
  std::map<SampledImage*, Watchpoints> watchpoints_;
};

}  // namespace stallscope::sources
