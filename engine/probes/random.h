// SPDX-License-Identifier: Apache-2.0
// The generator behind every random choice of a probe (SplitMix64): the same seed gives the same
// choices, everywhere.
#pragma once

#include <cstdint>

namespace stallscope::probes {

constexpr std::uint64_t mixed(std::uint64_t z) {
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
  return z ^ (z >> 31);
}

class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}
  std::uint64_t next() { return mixed(state_ += 0x9e3779b97f4a7c15ULL); }
  // Evenly from 1 to two means less one, so exactly `mean` on average.
  std::uint64_t around(std::uint64_t mean) { return 1 + next() % (2 * mean - 1); }

 private:
  std::uint64_t state_;
};

}  // namespace stallscope::probes
