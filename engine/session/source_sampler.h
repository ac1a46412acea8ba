// SPDX-License-Identifier: Apache-2.0
// Samples misses by what served them: a counter of misses from wanted sources for each thread, and
// a register with the address of a miss that is read when the counter overflows.
#pragma once

#include <cstdint>
#include <vector>

#include "base/flat_map.h"
#include "machine/chips.h"
#include "probes/random.h"
#include "session/sharing.h"
#include "stallscope_tables.h"

namespace stallscope::session {

class SourceSampler {
 public:
  SourceSampler(const SourceSampling& options, std::uint64_t seed);

  // One miss of the first cache, at an instruction of the program.
  void miss(std::uint64_t now, std::uint32_t thread, std::uint64_t line_address,
            machine::Source source);
  // The thread stops for a while: what is pending is read.
  void settle(std::uint32_t thread);

  std::uint64_t samples() const { return table_.rows(); }
  SharedSampleTable take() { return std::move(table_); }

 private:
  struct Counter {
    std::uint64_t left = 0;   // wanted misses until it overflows
    std::uint64_t until = 0;  // instruction at which an overflow is noticed
    std::uint64_t line = 0;   // the address register
    bool pending = false, wanted = false, begun = false;
  };
  bool wants(std::uint64_t now, machine::Source source);
  std::uint64_t next_period();
  void read(Counter& counter, std::uint64_t now, std::uint32_t thread);
  void adapt(std::uint64_t now);

  SourceSampling options_;
  probes::Random random_;
  std::uint64_t period_;
  std::uint64_t window_start_ = 0, window_misses_ = 0;
  FlatMap<Counter> counters_;  // by thread
  SharedSampleTable table_;
};

}  // namespace stallscope::session
