// SPDX-License-Identifier: Apache-2.0
// Static re-reference interval prediction with two bits a line and hit priority (Jaleel et al.,
// ISCA 2010). A line comes in with a long interval (2), a hit makes it near (0), and the first
// line with a distant one (3) goes; when there is none, all grow older until there is.
#pragma once

#include <bit>

#include "machine/sets.h"

namespace stallscope::machine {

struct Srrip {
  // The first hit after a fill still changes the line's interval; only the second changes nothing.
  static constexpr bool kFillSettles = false;
  static constexpr std::uint32_t kMaxWays = 32;
  template <unsigned Ways>
  using Layout = Places<Srrip, Ways>;

  static constexpr std::uint64_t kLong = 2;

  static void set(std::uint64_t& state, std::uint32_t way, std::uint64_t interval) {
    state = (state & ~(std::uint64_t{3} << 2 * way)) | interval << 2 * way;
  }

  static void hit(std::uint64_t& state, std::uint32_t way, std::uint32_t) { set(state, way, 0); }
  static void fill(std::uint64_t& state, std::uint32_t way, std::uint32_t) {
    set(state, way, kLong);
  }
  static std::uint32_t victim(Sets&, std::uint64_t& state, std::uint32_t ways) {
    const std::uint64_t ones = 0x5555555555555555ULL >> (64 - 2 * ways);  // 1 in every interval
    while (true) {
      const std::uint64_t distant = state & state >> 1 & ones;
      if (distant) return static_cast<std::uint32_t>(std::countr_zero(distant)) / 2;
      state += ones;
    }
  }
};

}  // namespace stallscope::machine
