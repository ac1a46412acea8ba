// SPDX-License-Identifier: Apache-2.0
#include "stream/code_table.h"

#include <cstring>

#include "stallscope_records.h"
#include "stream/record.h"

namespace stallscope::stream {
namespace {

// As they lie in the tail of a `block` record.
struct WireOperation {
  std::uint16_t instruction;
  std::uint8_t kind;
  std::uint8_t guarded;
  std::uint32_t size;
};
struct WireExit {
  std::uint32_t instructions;
  std::uint32_t operations;
};
// Address, length and whether it is speculative, in one word.
constexpr unsigned kLengthShift = 48;
constexpr std::uint64_t kLengthMask = 31;
constexpr std::uint64_t kSpeculative = 1ULL << 56;
constexpr std::uint64_t kAddressMask = (1ULL << kLengthShift) - 1;
// Valgrind takes the five instructions by which a program speaks to it (stallscope.h) for one.
constexpr std::uint8_t kLongest = 19;
constexpr std::uint64_t kMaxPerBlock = 4096;  // far above what one superblock can hold

Error bad(const char* why) { return Error{"the stream has a damaged block record", why, ""}; }

}  // namespace

Status CodeTable::add(const std::uint64_t* words, std::uint32_t count) {
  auto record = view<ss_block>(words, count);
  if (!record) return record.error();
  const ss_block& head = *record->fields;
  const std::string_view tail = record->tail;
  if (head.first_exit != exits.size()) return bad("its exits are not numbered in order");
  if (head.instructions == 0 || head.instructions > kMaxPerBlock ||
      head.operations > kMaxPerBlock || head.exits == 0 || head.exits > kMaxPerBlock)
    return bad("its counts are out of range");
  const std::uint64_t fixed = head.instructions * 8 + head.operations * sizeof(WireOperation) +
                              head.exits * sizeof(WireExit);
  if (fixed > tail.size()) return bad("it is shorter than its counts say");

  std::vector<Instruction> new_instructions;
  std::uint64_t code_bytes = 0;
  const char* at = tail.data();
  for (std::uint64_t i = 0; i < head.instructions; ++i, at += 8) {
    std::uint64_t word;
    std::memcpy(&word, at, sizeof word);
    const auto length = static_cast<std::uint8_t>(word >> kLengthShift & kLengthMask);
    if (length > kLongest) return bad("an instruction is longer than it can be");
    new_instructions.push_back({word & kAddressMask, length, (word & kSpeculative) != 0});
    code_bytes += length;
  }
  if (fixed + code_bytes != tail.size()) return bad("its code is not as long as its instructions");
  const std::string_view code = tail.substr(fixed);

  std::vector<Operation> new_operations;
  std::uint16_t last_instruction = 0;
  for (std::uint64_t i = 0; i < head.operations; ++i, at += sizeof(WireOperation)) {
    WireOperation wire;
    std::memcpy(&wire, at, sizeof wire);
    if (wire.instruction >= head.instructions || wire.instruction < last_instruction)
      return bad("an operation names an instruction out of order");
    if (wire.kind > SS_OP_KIND_PREFETCH || wire.kind == SS_OP_KIND_NONE || wire.guarded > 1)
      return bad("an unknown operation kind");
    if (wire.kind == SS_OP_KIND_PREFETCH && (wire.size != 1 || wire.guarded))
      return bad("a prefetch of more than a byte, or that may not happen");
    last_instruction = wire.instruction;
    new_operations.push_back({wire.size, wire.instruction, wire.kind, wire.guarded});
  }
  std::vector<Exit> new_exits;
  const auto block_number = static_cast<std::uint32_t>(blocks.size());
  const auto first_operation = static_cast<std::uint32_t>(operations.size());
  for (std::uint64_t i = 0; i < head.exits; ++i, at += sizeof(WireExit)) {
    WireExit wire;
    std::memcpy(&wire, at, sizeof wire);
    if (wire.instructions > head.instructions || wire.operations > head.operations)
      return bad("an exit lies behind the block's end");
    new_exits.push_back({block_number, first_operation, wire.operations, wire.instructions});
  }

  blocks.push_back({head.address, static_cast<std::uint32_t>(exits.size()),
                    static_cast<std::uint32_t>(head.exits), first_operation,
                    static_cast<std::uint32_t>(head.operations),
                    static_cast<std::uint32_t>(instructions.size()),
                    static_cast<std::uint32_t>(head.instructions), bytes.size(),
                    static_cast<std::uint32_t>(code_bytes)});
  exits.insert(exits.end(), new_exits.begin(), new_exits.end());
  operations.insert(operations.end(), new_operations.begin(), new_operations.end());
  instructions.insert(instructions.end(), new_instructions.begin(), new_instructions.end());
  bytes.append(code);
  return Done{};
}

void CodeTable::append_block(std::vector<std::uint64_t>& words, std::size_t number,
                             std::uint32_t thread, std::uint64_t when) const {
  const Block& block = blocks[number];
  std::string tail;
  auto append = [&](const auto& wire) {
    tail.append(reinterpret_cast<const char*>(&wire), sizeof wire);
  };
  for (std::uint32_t i = 0; i < block.instructions; ++i) {
    const Instruction& one = instructions[block.first_instruction + i];
    append(one.address | std::uint64_t{one.length} << kLengthShift |
           (one.speculative ? kSpeculative : 0));
  }
  for (std::uint32_t i = 0; i < block.operations; ++i) {
    const Operation& op = operations[block.first_operation + i];
    append(WireOperation{op.instruction, op.kind, op.guarded, op.size});
  }
  for (std::uint32_t i = 0; i < block.exits; ++i) {
    const Exit& exit = exits[block.first_exit + i];
    append(WireExit{exit.instructions, exit.operations});
  }
  tail.append(bytes, block.first_byte, block.size);
  append_record(
      words, SS_BLOCK, thread, when,
      {block.first_exit, block.address, block.instructions, block.operations, block.exits}, tail);
}

}  // namespace stallscope::stream
