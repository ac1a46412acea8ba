// SPDX-License-Identifier: Apache-2.0
// Least recently used: a set's tags stand in the order of their last access.
#pragma once

#include "machine/sets.h"

namespace stallscope::machine {

struct Lru {
  static constexpr bool kHitsRefresh = true;
  static constexpr bool kFillSettles = true;
  static constexpr std::uint32_t kMaxWays = 65536;
  template <unsigned Ways>
  using Layout = Queue<Lru, Ways>;
};

}  // namespace stallscope::machine
