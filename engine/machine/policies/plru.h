// SPDX-License-Identifier: Apache-2.0
// Tree pseudo-LRU: ways are the leaves of a binary tree with one bit a node. An access turns the
// bits on its path away from itself; the victim is where the bits point.
#pragma once

#include <bit>

#include "machine/sets.h"

namespace stallscope::machine {

// Node n (the root is 1) is bit n of the state and has the children 2n and 2n + 1; 1 points right.
struct Plru {
  static constexpr bool kFillSettles = true;
  static constexpr std::uint32_t kMaxWays = 64;  // and a power of two
  template <unsigned Ways>
  using Layout = Places<Plru, Ways>;

  static void hit(std::uint64_t& state, std::uint32_t way, std::uint32_t ways) {
    for (std::uint32_t node = ways + way; node > 1; node /= 2) {
      const std::uint64_t parent = std::uint64_t{1} << node / 2;
      state = node & 1 ? state & ~parent : state | parent;
    }
  }
  static void fill(std::uint64_t& state, std::uint32_t way, std::uint32_t ways) {
    hit(state, way, ways);
  }
  static std::uint32_t victim(Sets&, std::uint64_t& state, std::uint32_t ways) {
    std::uint32_t node = 1;
    while (node < ways) node = 2 * node + (state >> node & 1);
    return node - ways;
  }
};

}  // namespace stallscope::machine
