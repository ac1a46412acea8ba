// SPDX-License-Identifier: Apache-2.0
// The LRU stacks of a cache's sets: one look-up tells every cache with these sets, whatever its
// ways, whether it hits. A cache of w ways holds the first w lines of each stack (Mattson et al.
// 1970), so that a line found at depth d is a hit where w is above d.
//
// Stacks of up to kSearched lines are searched from their top and forget what lies deeper than
// anybody asks; deeper ones count exactly over all lines ever seen (lru_stack.h).
// One thread at a time.
#pragma once

#include <bit>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "base/result.h"
#include "stack/lru_stack.h"

namespace stallscope::stack {

class SetStacks {
 public:
  static constexpr std::uint32_t kSearched = 256;
  static constexpr std::uint64_t kNoLine = ~std::uint64_t{0};  // lines are at least 8 bytes long

  // `ways` are the most that anybody asks for.
  SetStacks(std::uint64_t sets, std::uint32_t ways);

  struct Place {
    std::uint32_t depth;     // lines of the set used since; `ways` when that was long ago, or never
    std::uint32_t evicting;  // ways of the largest cache that throws a line out for it
  };

  std::uint64_t set_of(std::uint64_t line) const {
    return power_of_two_ ? line & (sets_ - 1) : line % sets_;
  }
  // Its next use would change nothing, here and in all stacks that divide these sets further.
  bool on_top(std::uint64_t line) const { return tops_[set_of(line)] == line; }
  // Puts the line on top; where it was.
  Place touch(std::uint64_t line) {
    const std::uint64_t set = set_of(line);
    if (tops_[set] == line) return {0, 0};
    tops_[set] = line;
    return ways_ <= kSearched ? search(set, line) : count(set, line);
  }

  std::uint32_t ways() const { return ways_; }
  std::uint64_t sets() const { return sets_; }
  // A line for each set, for those who look before they call; the mask is 0 where it is no mask.
  const std::uint64_t* tops() const { return tops_.data(); }
  bool has_mask() const { return power_of_two_; }
  // Whether a stack had no room for another line: what came after is not known.
  bool overflowed() const { return overflowed_; }

 private:
  Place search(std::uint64_t set, std::uint64_t line) {
    std::uint64_t* const stack = lines_.data() + set * ways_;
    std::uint64_t carried = line;
    for (std::uint32_t depth = 0; depth < ways_; ++depth) {
      std::swap(stack[depth], carried);
      if (carried == line) return {depth, depth};
      if (carried == kNoLine) return {ways_, depth};
    }
    return {ways_, ways_};
  }
  Place count(std::uint64_t set, std::uint64_t line);

  std::uint64_t sets_;
  std::uint32_t ways_;
  bool power_of_two_;
  bool overflowed_ = false;
  std::vector<std::uint64_t> tops_;              // by set
  std::vector<std::uint64_t> lines_;             // searched: ways_ a set, from the top
  std::vector<std::unique_ptr<LruStack>> deep_;  // counted: by set, made when it is used
};

}  // namespace stallscope::stack
