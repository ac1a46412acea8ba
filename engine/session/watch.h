// SPDX-License-Identifier: Apache-2.0
// Every access to watched memory in a kept trace: ranges that lie still, and parts of heap blocks
// from their birth to their death.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "probes/range_set.h"
#include "session/heap_ranges.h"
#include "stallscope_tables.h"

namespace stallscope::session {

// Of the first bytes of a range, up to eight, after the access.
struct WatchCondition {
  enum class Is : std::uint8_t { anything, equal, unequal, below, above };
  Is is = Is::anything;
  std::uint64_t limit = 0;

  bool holds(std::uint64_t value) const {
    return is == Is::anything || (is == Is::equal && value == limit) ||
           (is == Is::unequal && value != limit) || (is == Is::below && value < limit) ||
           (is == Is::above && value > limit);
  }
};

struct WatchOptions {
  std::vector<probes::RangeSet::Range> ranges;
  std::vector<HeapWatch> heap;
  std::vector<std::uint8_t> kinds;  // by watch: 1 reads, 2 writes, 3 both
  // Code whose accesses are not looked at: the allocator's own.
  std::vector<std::pair<std::uint64_t, std::uint64_t>> quiet;
  std::uint64_t stop_after = 0;  // hits; 0: never
  std::uint64_t log = 10'000;    // hits that are kept one by one
  bool paths = true;             // call paths of those
  std::string values;            // the file beside the trace; empty: there is none
  WatchCondition condition;      // needs values
  bool snapshots = false;        // of the logged hits; needs values
};

struct Watched {
  WatchHitTable hit;
  WatchCountTable count;
  WatchPathTable path;
  WatchValueTable value;
  std::uint64_t accesses = 0;
  std::uint64_t hits = 0;
  std::uint64_t unknown = 0;      // accesses of which no value is known, so that no condition holds
  std::uint64_t false_hits = 0;   // that the match let pass and the list took out
  std::uint64_t most_ranges = 0;  // at a time
  bool stopped = false;
  bool truncated = false;
};

Result<Watched> watch(const std::string& path, const WatchOptions& options);

}  // namespace stallscope::session
