// SPDX-License-Identifier: Apache-2.0
// A set of moments with its largest at hand: a bit each, and above the bits a bit for each word
// that has any, up to one word. Every operation touches one word a level.
#pragma once

#include <bit>
#include <cstdint>
#include <vector>

#include "stack/page_table.h"

namespace stallscope::stack {

class MomentSet {
 public:
  explicit MomentSet(std::uint64_t moments) {
    do {
      moments = moments / 64 + 1;
      levels_.emplace_back(moments);
    } while (moments > 1);
  }
  bool has(std::uint64_t moment) const { return levels_[0][moment / 64] >> (moment % 64) & 1; }
  void add(std::uint64_t moment) {
    for (const auto& level : levels_) {
      std::uint64_t& word = level[moment / 64];
      const bool known = word != 0;
      word |= std::uint64_t{1} << (moment % 64);
      if (known) return;
      moment /= 64;
    }
  }
  void remove(std::uint64_t moment) {
    for (const auto& level : levels_) {
      std::uint64_t& word = level[moment / 64];
      word &= ~(std::uint64_t{1} << (moment % 64));
      if (word != 0) return;
      moment /= 64;
    }
  }
  // Not when empty.
  std::uint64_t largest() const {
    std::uint64_t place = 0;
    for (std::size_t i = levels_.size(); i-- > 0;)
      place = place * 64 + 63 - static_cast<unsigned>(std::countl_zero(levels_[i][place]));
    return place;
  }
  std::uint64_t bytes() const {
    std::uint64_t sum = 0;
    for (const auto& level : levels_) sum += level.size() * 8;
    return sum;
  }

 private:
  std::vector<LargeArray<std::uint64_t>> levels_;
};

}  // namespace stallscope::stack
