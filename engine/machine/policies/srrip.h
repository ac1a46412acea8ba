// SPDX-License-Identifier: Apache-2.0
// Static re-reference interval prediction with two bits a line and hit priority (Jaleel et al.,
// ISCA 2010). A line comes in with a long interval (2), a hit makes it near (0), and the first
// line with a distant one (3) goes; when there is none, all grow older until there is.
#pragma once

#include <algorithm>

#include "machine/sets.h"

namespace stallscope::machine {

struct Srrip {
  // The first hit after a fill still changes the line's interval; only the second changes nothing.
  static constexpr bool kFillSettles = false;
  static constexpr std::uint32_t kMaxWays = 32;
  template <unsigned Ways>
  using Layout = Places<Srrip, Ways>;

  static constexpr std::uint64_t kLong = 2, kDistant = 3;

  static std::uint64_t interval(std::uint64_t state, std::uint32_t way) {
    return state >> 2 * way & 3;
  }
  static void set(std::uint64_t& state, std::uint32_t way, std::uint64_t interval) {
    state = (state & ~(std::uint64_t{3} << 2 * way)) | interval << 2 * way;
  }

  static void hit(std::uint64_t& state, std::uint32_t way, std::uint32_t) { set(state, way, 0); }
  static void fill(std::uint64_t& state, std::uint32_t way, std::uint32_t) {
    set(state, way, kLong);
  }
  static std::uint32_t victim(Sets&, std::uint64_t& state, std::uint32_t ways) {
    std::uint64_t oldest = 0;
    for (std::uint32_t way = 0; way < ways; ++way) oldest = std::max(oldest, interval(state, way));
    const std::uint64_t ageing = kDistant - oldest;
    std::uint32_t victim = ways;
    for (std::uint32_t way = 0; way < ways; ++way) {
      const std::uint64_t aged = interval(state, way) + ageing;
      set(state, way, aged);
      if (aged == kDistant && victim == ways) victim = way;
    }
    return victim;
  }
};

}  // namespace stallscope::machine
