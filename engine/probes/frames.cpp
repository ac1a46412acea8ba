// SPDX-License-Identifier: Apache-2.0
#include "probes/frames.h"

#include <algorithm>

namespace stallscope::probes {

void Frames::exit(std::uint32_t thread) {
  const auto at = stacks_.find(thread);
  if (at == stacks_.end()) return;
  if (now_ == &at->second)
    now_->clear();  // it still runs its last instructions
  else
    stacks_.erase(at);
}

// Stacks do not overlap: the one whose outermost frame lies next above the address. Mostly that is
// the running thread's.
const Frames::Stack* Frames::stack_of(std::uint64_t address) const {
  constexpr std::uint64_t kNear = 64 << 10;
  if (!now_->empty() && now_->front().top >= address && address + kNear >= now_->back().top)
    return now_;
  const Stack* best = nullptr;
  for (const auto& [thread, stack] : stacks_)
    if (!stack.empty() && stack.front().top >= address &&
        (best == nullptr || stack.front().top < best->front().top))
      best = &stack;
  return best;
}

std::uint32_t Frames::find(std::uint64_t address) const {
  const Stack* const stack = stack_of(address);
  if (stack == nullptr) return kNone32;
  const auto behind = std::partition_point(
      stack->begin(), stack->end(), [&](const Frame& frame) { return frame.top >= address; });
  return std::prev(behind)->operation;
}

}  // namespace stallscope::probes
