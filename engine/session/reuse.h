// SPDX-License-Identifier: Apache-2.0
// How long every granule of memory goes untouched, by a kept trace: exactly what watching a few of
// them at native speed estimates.
//
// Time is counted in touches: an access touches each granule that it lies in, in the order of
// their addresses.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"

namespace stallscope::session {

struct ReuseOptions {
  std::uint32_t granule = 8;            // bytes, a power of two
  std::vector<std::uint64_t> followed;  // granules whose every touch is wanted
  bool all = true;                      // reuse times and the curve of all granules as well
};

// One touch of a followed granule.
struct Followed {
  std::uint64_t granule, time, instruction;
};

struct Reuse {
  // Reuse times t are counted in steps of at most a sixteenth: index_of(t).
  static std::size_t index_of(std::uint64_t time);
  static std::uint64_t shortest_at(std::size_t index);

  std::uint64_t accesses = 0;
  std::uint64_t touches = 0;
  std::uint64_t granules = 0;        // each was touched a first time
  std::vector<std::uint64_t> times;  // how often, by index_of
  std::vector<std::uint64_t> curve;  // touches that miss, with memory for 0, 1, … granules
  std::vector<Followed> followed;
  bool truncated = false;
};

Result<Reuse> reuse_of(const std::string& trace, const ReuseOptions& options);

}  // namespace stallscope::session
