// SPDX-License-Identifier: Apache-2.0
// Random: any way with the same chance, drawn from a seeded generator (xorshift64*), one for each
// cache. Empty ways are filled first, without a draw.
#pragma once

#include "machine/sets.h"

namespace stallscope::machine {

struct Random {
  static constexpr bool kFillSettles = true;
  static constexpr std::uint32_t kMaxWays = 65536;
  template <unsigned Ways>
  using Layout = Places<Random, Ways>;

  static std::uint64_t next(std::uint64_t& state) {
    state ^= state >> 12;
    state ^= state << 25;
    state ^= state >> 27;
    return state * 0x2545f4914f6cdd1dULL;
  }

  static void hit(std::uint64_t&, std::uint32_t, std::uint32_t) {}
  static void fill(std::uint64_t&, std::uint32_t, std::uint32_t) {}
  static std::uint32_t victim(Sets& sets, std::uint64_t&, std::uint32_t ways) {
    return static_cast<std::uint32_t>((next(sets.random) >> 32) * ways >> 32);
  }
};

}  // namespace stallscope::machine
