// SPDX-License-Identifier: Apache-2.0
#include "session/code_lines.h"

#include <algorithm>

namespace stallscope::session {

void CodeLines::learn() {
  lines_.resize(lines_.size() - std::min<std::size_t>(lines_.size(), kSlack));
  for (std::size_t number = known_.size(); number < code_.exits.size(); ++number) {
    const stream::Exit& exit = code_.exits[number];
    const std::uint32_t first_instruction = code_.blocks[exit.block].first_instruction;
    const std::size_t first = lines_.size();
    for (std::uint32_t i = 0; bytes_ != 0 && i < exit.instructions; ++i) {
      const stream::Instruction& one = code_.instructions[first_instruction + i];
      const std::uint64_t end = one.address + (one.length ? one.length : 1);
      for (std::uint64_t line = one.address / bytes_ * bytes_; line < end; line += bytes_)
        if (lines_.size() == first || line != lines_.back()) lines_.push_back(line);
    }
    known_.push_back(
        {static_cast<std::uint32_t>(first), static_cast<std::uint32_t>(lines_.size() - first)});
  }
  lines_.resize(lines_.size() + kSlack);
}

}  // namespace stallscope::session
