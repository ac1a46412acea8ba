// SPDX-License-Identifier: Apache-2.0
#include "session/stack_steps.h"

#include <algorithm>
#include <span>

#include "code/decode.h"
#include "stallscope_records.h"

namespace stallscope::session {
namespace {

using probes::Frames;

Frames::Step step_of(code::Flow flow, std::uint8_t kind) {
  if (flow == code::Flow::kCall && kind == SS_OP_KIND_STORE) return Frames::Step::call;
  if (flow == code::Flow::kReturn && kind == SS_OP_KIND_LOAD) return Frames::Step::back;
  return Frames::Step::none;
}

// Where control goes behind each instruction; kNext also where the bytes say nothing.
std::vector<code::Flow> flows_of(const stream::CodeTable& code, const stream::Block& block) {
  std::vector<code::Flow> flows(block.instructions, code::Flow::kNext);
  const auto* bytes = reinterpret_cast<const std::uint8_t*>(code.bytes.data()) + block.first_byte;
  std::span<const std::uint8_t> left(bytes, block.size);
  for (std::uint32_t i = 0; i < block.instructions; ++i) {
    const stream::Instruction& one = code.instructions[block.first_instruction + i];
    if (one.length == 0 || one.length > left.size()) break;
    if (auto decoded = code::decode(left.first(one.length), Address{one.address}); decoded)
      flows[i] = decoded->flow;
    left = left.subspan(one.length);
  }
  return flows;
}

}  // namespace

void learn_stack_steps(const stream::CodeTable& code, std::vector<Frames::Step>& steps) {
  auto block = std::partition_point(
      code.blocks.begin(), code.blocks.end(),
      [&](const stream::Block& b) { return b.first_operation + b.operations <= steps.size(); });
  for (; block != code.blocks.end(); ++block) {
    if (block->operations == 0) continue;
    const std::vector<code::Flow> flows = flows_of(code, *block);
    for (std::uint32_t i = 0; i < block->operations; ++i) {
      const stream::Operation& one = code.operations[block->first_operation + i];
      steps.push_back(one.instruction < flows.size() ? step_of(flows[one.instruction], one.kind)
                                                     : Frames::Step::none);
    }
  }
}

}  // namespace stallscope::session
