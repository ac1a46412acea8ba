// SPDX-License-Identifier: Apache-2.0
// The code table: every block of code that the stream defined, in flat arrays indexed by exit and
// by operation, so that a block execution is decoded with one look-up. Grown by StreamParser from
// `block` records; read by everything behind it. Not thread-safe.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "stallscope_records.h"

namespace stallscope::stream {

struct Instruction {
  std::uint64_t address;
  std::uint8_t length;  // bytes
  bool speculative;     // Valgrind joined it to the block under a condition; it may not have run
};

struct Operation {
  std::uint32_t size;         // bytes
  std::uint16_t instruction;  // index within the block
  std::uint8_t kind;          // ss_op_kind
  std::uint8_t guarded;       // 1: may not happen; then its address is SS_NO_ADDRESS

  // Neither reads nor writes: a line comes that may be wanted later.
  bool is_prefetch() const { return kind == SS_OP_KIND_PREFETCH; }
};

// One way out of a block: everything up to it was executed.
struct Exit {
  std::uint32_t block;
  std::uint32_t first_operation;  // index into CodeTable::operations
  std::uint32_t operations;       // how many were executed, so how many address words follow
  std::uint32_t instructions;     // how many were executed
};

// Mostly straight code, but Valgrind follows jumps and calls to known places into one block.
struct Block {
  std::uint64_t address;
  std::uint32_t first_exit;
  std::uint32_t exits;
  std::uint32_t first_operation;
  std::uint32_t operations;
  std::uint32_t first_instruction;  // index into CodeTable::instructions
  std::uint32_t instructions;
  std::uint64_t first_byte;  // index into CodeTable::bytes
  std::uint32_t size;        // bytes of code
};

struct CodeTable {
  std::vector<Block> blocks;
  std::vector<Exit> exits;
  std::vector<Operation> operations;
  std::vector<Instruction> instructions;
  std::string bytes;

  // `record` is a whole `block` record. Checks every count against the record's length before it
  // grows anything, and that exits are numbered in order.
  Status add(const std::uint64_t* record, std::uint32_t words);

  // The inverse: appends the `block` record that defines `blocks[block]`.
  void append_block(std::vector<std::uint64_t>& words, std::size_t block, std::uint32_t thread,
                    std::uint64_t when) const;
};

}  // namespace stallscope::stream
