// SPDX-License-Identifier: Apache-2.0
// The clock that samples are stamped with.
#pragma once

#include <time.h>

#include <cstdint>

namespace stallscope::sources {

// Nanoseconds.
inline std::uint64_t now() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return static_cast<std::uint64_t>(t.tv_sec) * 1'000'000'000 +
         static_cast<std::uint64_t>(t.tv_nsec);
}

}  // namespace stallscope::sources
