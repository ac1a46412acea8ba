// SPDX-License-Identifier: Apache-2.0
// What prefetch slices would do: the program replayed with an assist thread beside it, or with
// prefetches in its own code, through caches that both share.
//
// The slice's addresses are those that the recording holds for its loads: what a correct slice
// computes. Time is simple: every instruction takes a fixed part of a cycle, the main thread waits
// for each of its loads, the assist thread for those that its own next address depends on.
// Not modelled: out-of-order execution, other threads of the program (theirs count as the main
// thread's).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "machine/config.h"

namespace stallscope::session {

struct AheadSlice {
  std::uint64_t load = 0;              // whose runs are counted; inline: once a turn
  std::vector<std::uint64_t> steps;    // instructions of its trace
  std::vector<std::uint64_t> loads;    // that are prefetched
  std::vector<std::uint64_t> feeding;  // whose results the slice needs
  double cost = 1;                     // instructions a run
  std::uint32_t distance = 0;          // inline: runs ahead; 0: an assist thread
  std::vector<std::uint32_t> times;    // inline: the distance of each of `loads`; else once
  std::int64_t step = 0;  // inline: by which the address of `load` grows a run; 0: by any amount
};

struct AheadOptions {
  std::vector<AheadSlice> slices;
  std::uint32_t chunk = 256;   // runs between checks
  std::uint32_t slack = 50;    // runs that the assist thread may be ahead at a check
  std::uint32_t pause = 1000;  // cycles that it waits then
  std::uint32_t start = 100;   // cycles to hand over registers
  double cycles = 0.5;         // of an instruction
  bool shared_core = false;
  bool hardware = true;  // the machine's prefetcher
  bool prefetch = true;  // false: the control, which costs the same and brings nothing
};

struct AheadCounts {
  std::uint64_t cycles = 0;                               // of the main thread
  std::uint64_t accesses = 0, misses = 0, in_flight = 0;  // of the main thread, last level
  std::uint64_t prefetches = 0, used = 0;                 // lines asked for, first uses of them
  std::uint64_t runs = 0;                                 // of slices' loads
  std::uint64_t visits = 0, restarts = 0, pauses = 0;
};

Result<AheadCounts> run_ahead(const std::string& trace, const machine::MachineConfig& config,
                              const AheadOptions& options);

// Which stores of a trace feed which of its loads: instruction that stores, that loads, how often.
struct Flow {
  std::uint64_t store, load, count;
};
Result<std::vector<Flow>> flows_of(const std::string& trace,
                                   const std::vector<std::uint64_t>& steps);

}  // namespace stallscope::session
