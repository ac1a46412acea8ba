// SPDX-License-Identifier: Apache-2.0
#include "stack/set_stacks.h"

#include <algorithm>
#include <span>

namespace stallscope::stack {

SetStacks::SetStacks(std::uint64_t sets, std::uint32_t ways)
    : sets_(sets), ways_(ways), power_of_two_(std::has_single_bit(sets)), tops_(sets, kNoLine) {
  if (ways <= kSearched) {
    lines_.assign(sets * ways, kNoLine);
  } else {
    deep_.resize(sets);
  }
}

SetStacks::Place SetStacks::count(std::uint64_t set, std::uint64_t line) {
  std::unique_ptr<LruStack>& stack = deep_[set];
  if (!stack) stack = std::make_unique<LruStack>();
  const auto lines = static_cast<std::uint32_t>(std::min<std::uint64_t>(stack->distinct(), ways_));
  std::uint32_t distance = 0;
  if (!stack->append(std::span<const std::uint64_t>(&line, 1), &distance)) overflowed_ = true;
  return {std::min(distance, ways_), std::min(distance, lines)};
}

}  // namespace stallscope::stack
