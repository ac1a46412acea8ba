// SPDX-License-Identifier: Apache-2.0
// From blocks of machine code to micro-operations, once a block, so that the loop over executed
// instructions looks up nothing.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "code/work.h"
#include "pipeline/core.h"
#include "stream/code_table.h"

namespace stallscope::pipeline {

// Registers: those of code/work.h, then temporaries within an instruction, and where results go
// that nobody reads. Register 0 is always ready.
constexpr std::uint8_t kTemporary = code::kCoreRegisters;  // two for loads, one for a result
constexpr std::uint8_t kResult = kTemporary + 2;
constexpr std::uint8_t kNobody = 63;
constexpr unsigned kRegisters = 64;
static_assert(kResult < kNobody);

constexpr std::uint8_t kNoUnit = kUnits;
constexpr std::uint16_t kNoOperation = 0xffff;

enum class MicroKind : std::uint8_t { compute, load, store, prefetch, branch };

struct MicroOp {
  std::uint8_t unit = kNoUnit;
  MicroKind kind = MicroKind::compute;
  std::uint8_t latency = 1;   // cycles; of loads and stores the memory decides
  std::uint8_t occupies = 1;  // cycles that its unit takes nothing else
  std::uint8_t sources[4]{};
  std::uint8_t results[3] = {kNobody, kNobody, kNobody};  // ready when it has finished
  std::uint8_t stepped = kNobody;  // a stack pointer, ready one cycle after issue
  std::uint8_t divides = 0;
  std::uint16_t operation = kNoOperation;  // within the block
};

// What operations of an instruction or bundle need, a byte each, so that bundles add up.
struct Needs {
  static constexpr unsigned kRegisters = 4, kLoads = 5, kStores = 6;  // 0 to 3: queues, by unit
  std::uint64_t packed = 0;

  void add(unsigned what, std::uint64_t count = 1) { packed += count << (8 * what); }
  std::uint32_t of(unsigned what) const { return packed >> (8 * what) & 0xff; }
};

Needs needs_of(const MicroOp& op);

struct CoreInstruction {
  std::uint64_t address;
  std::uint32_t first;  // index into Lowered::ops
  std::uint8_t count;   // of micro-operations, at least 1
  std::uint8_t length;  // bytes
  code::WorkFlow flow;
  std::uint8_t lines;  // 1: begins in another line than the one before ended in; 2: crosses
  Needs needs;
};

// Indexed as CodeTable::instructions.
class Lowered {
 public:
  Lowered(const stream::CodeTable& code, const CoreConfig& config, Ideal ideal,
          std::uint32_t line_bits);
  // Blocks that came into the code table since.
  void learn();

  std::vector<CoreInstruction> instructions;
  std::vector<MicroOp> ops;

 private:
  void lower_block(const stream::Block& block);
  void lower(const stream::Block& block, std::uint32_t index, std::span<const std::uint8_t> bytes,
             std::uint32_t& operation);
  struct Accesses {            // of one instruction
    std::uint32_t first;       // of its block, in CodeTable::operations
    std::uint32_t begin, end;  // within the block
    std::uint32_t loads, stores;
  };
  std::uint8_t lines_of(std::uint32_t index, const stream::Instruction& one) const;
  MicroOp compute_of(const code::Work& work) const;
  void push_loads(const code::Work& work, const Accesses& accesses, bool gives_result);
  void push_prefetch(const code::Work& work, std::uint32_t operation);
  void push_unseen(const code::Work& work, bool gives_result);
  void push_stores(const code::Work& work, const Accesses& accesses, std::uint8_t data);
  void push(const MicroOp& op);

  const stream::CodeTable& code_;
  CoreConfig config_;
  Ideal ideal_;
  std::uint32_t line_bits_;
  std::size_t blocks_ = 0;
};

}  // namespace stallscope::pipeline
