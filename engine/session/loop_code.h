// SPDX-License-Identifier: Apache-2.0
// What loops need to know of code: where control goes behind each instruction, and where inside of
// blocks it does not simply go on.
#pragma once

#include <cstdint>
#include <vector>

#include "base/flat_map.h"
#include "code/decode.h"
#include "stream/code_table.h"

namespace stallscope::session {

class LoopCode {
 public:
  explicit LoopCode(const stream::CodeTable& code) : code_(code) {}

  // Blocks that came since. Headers are marked in blocks that are learned afterwards.
  void learn();
  bool knows(std::uint32_t block) const { return block < points_.size(); }

  // Inside of a block: control arrives at instruction `index`, by something else than the
  // instruction in front of it, or because a loop begins there.
  const std::vector<std::uint32_t>& points(std::uint32_t block) const { return points_[block]; }
  code::Flow flow(std::size_t instruction) const { return flows_[instruction]; }
  std::uint64_t next(std::size_t instruction) const {
    const stream::Instruction& one = code_.instructions[instruction];
    return one.address + one.length;
  }

  FlatMap<std::uint32_t> headers;  // loops, by the address of their first instruction

 private:
  void learn_block(const stream::Block& block);

  const stream::CodeTable& code_;
  std::vector<code::Flow> flows_;                   // by instruction
  std::vector<std::vector<std::uint32_t>> points_;  // by block
};

}  // namespace stallscope::session
