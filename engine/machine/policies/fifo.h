// SPDX-License-Identifier: Apache-2.0
// First in, first out: a set's tags stand in the order in which they were filled.
#pragma once

#include "machine/sets.h"

namespace stallscope::machine {

struct Fifo {
  static constexpr bool kHitsRefresh = false;
  static constexpr bool kFillSettles = true;
  static constexpr std::uint32_t kMaxWays = 65536;
  template <unsigned Ways>
  using Layout = Queue<Fifo, Ways>;
};

}  // namespace stallscope::machine
