// SPDX-License-Identifier: Apache-2.0
#include "session/loop_code.h"

#include <span>

namespace stallscope::session {

void LoopCode::learn() {
  while (points_.size() < code_.blocks.size()) learn_block(code_.blocks[points_.size()]);
}

void LoopCode::learn_block(const stream::Block& block) {
  flows_.resize(block.first_instruction + block.instructions, code::Flow::kNext);
  const auto* bytes = reinterpret_cast<const std::uint8_t*>(code_.bytes.data()) + block.first_byte;
  std::span<const std::uint8_t> left(bytes, block.size);
  std::vector<std::uint32_t> points;
  for (std::uint32_t i = 0; i < block.instructions; ++i) {
    const std::size_t index = block.first_instruction + i;
    const stream::Instruction& one = code_.instructions[index];
    if (i > 0 && (one.address != next(index - 1) || flows_[index - 1] == code::Flow::kCall ||
                  flows_[index - 1] == code::Flow::kReturn || headers.contains(one.address)))
      points.push_back(i);
    if (one.length > 0 && one.length <= left.size()) {
      auto decoded = code::decode(left.first(one.length), Address{one.address});
      if (decoded) flows_[index] = decoded->flow;
    }
    left = left.subspan(std::min<std::size_t>(one.length, left.size()));
  }
  points_.push_back(std::move(points));
}

}  // namespace stallscope::session
