// SPDX-License-Identifier: Apache-2.0
#include "pipeline/lowering.h"

#include <algorithm>
#include <span>

#include "stallscope_records.h"

namespace stallscope::pipeline {
namespace {

using code::Work;
using code::WorkKind;

constexpr std::uint8_t kMostOps = 64;  // of one instruction

struct Timing {
  Unit unit;
  std::uint32_t latency;
  bool blocks;  // the unit takes nothing else meanwhile
};

Timing timing_of(const Work& work, const CoreConfig& c) {
  switch (work.kind) {
    case WorkKind::kMultiply:
      return {Unit::iu, c.multiply, false};
    case WorkKind::kDivide:
      return {Unit::iu, work.bits >= 64 ? c.divide_wide : c.divide, true};
    case WorkKind::kVector:
      return {Unit::fpu, c.vector, false};
    case WorkKind::kFloatAdd:
      return {Unit::fpu, c.float_add, false};
    case WorkKind::kFloatMultiply:
      return {Unit::fpu, c.float_multiply, false};
    case WorkKind::kFloatDivide:
      return {Unit::fpu, c.float_divide, true};
    case WorkKind::kSlow:
      return {Unit::iu, c.slow, true};
    case WorkKind::kBranch:
      return {Unit::bu, 1, false};
    case WorkKind::kMove:
      if (work.vector) return {Unit::fpu, c.vector, false};
      return {Unit::iu, c.integer, false};
    default:
      return {Unit::iu, c.integer, false};
  }
}

void add_source(MicroOp& op, std::uint8_t source) {
  if (source == 0) return;
  for (std::uint8_t& one : op.sources)
    if (one == 0 || one == source) {
      one = source;
      return;
    }
}

MicroOp access_of(const Work& work, MicroKind kind, std::uint32_t operation) {
  MicroOp op;
  op.unit = static_cast<std::uint8_t>(Unit::lsu);
  op.kind = kind;
  op.operation = static_cast<std::uint16_t>(std::min<std::uint32_t>(operation, kNoOperation));
  for (unsigned i = 0; i < 3; ++i) add_source(op, work.addresses[i]);
  return op;
}

void set_results(MicroOp& op, const Work& work) {
  for (unsigned i = 0; i < 3; ++i)
    if (work.writes[i]) op.results[i] = work.writes[i];
}

bool reads_anything(const Work& work) { return work.reads[0] != 0; }

}  // namespace

Needs needs_of(const MicroOp& op) {
  Needs needs;
  if (op.unit != kNoUnit) needs.add(op.unit);
  for (const std::uint8_t result : op.results)
    needs.add(Needs::kRegisters, result != kNobody && result != code::kFlags);
  needs.add(Needs::kRegisters, op.stepped != kNobody);
  needs.add(Needs::kLoads, op.kind == MicroKind::load || op.kind == MicroKind::prefetch);
  needs.add(Needs::kStores, op.kind == MicroKind::store);
  return needs;
}

Lowered::Lowered(const stream::CodeTable& code, const CoreConfig& config, Ideal ideal,
                 std::uint32_t line_bits)
    : code_(code), config_(config), ideal_(ideal), line_bits_(line_bits) {}

void Lowered::learn() {
  for (; blocks_ < code_.blocks.size(); ++blocks_) lower_block(code_.blocks[blocks_]);
}

void Lowered::lower_block(const stream::Block& block) {
  const auto* bytes = reinterpret_cast<const std::uint8_t*>(code_.bytes.data()) + block.first_byte;
  std::span<const std::uint8_t> left(bytes, block.size);
  std::uint32_t operation = 0;
  for (std::uint32_t i = 0; i < block.instructions; ++i) {
    const stream::Instruction& one = code_.instructions[block.first_instruction + i];
    const std::size_t length = std::min<std::size_t>(one.length, left.size());
    lower(block, i, left.first(length), operation);
    left = left.subspan(length);
  }
}

MicroOp Lowered::compute_of(const Work& work) const {
  MicroOp op;
  if (work.kind == WorkKind::kNothing) return op;
  const Timing timing = timing_of(work, config_);
  const Cause cause = timing.unit == Unit::fpu ? Cause::fpu : Cause::iu;
  const bool ideal = timing.unit != Unit::bu && is_ideal(ideal_, cause);
  op.unit = static_cast<std::uint8_t>(timing.unit);
  op.kind = work.kind == WorkKind::kBranch ? MicroKind::branch : MicroKind::compute;
  op.latency = static_cast<std::uint8_t>(ideal ? 1 : timing.latency);
  op.occupies = timing.blocks ? op.latency : std::uint8_t{1};
  op.divides = timing.blocks;
  for (const std::uint8_t read : work.reads) add_source(op, read);
  set_results(op, work);
  return op;
}

void Lowered::push(const MicroOp& op) {
  CoreInstruction& made = instructions.back();
  if (made.count == kMostOps) return;
  ++made.count;
  made.needs.packed += needs_of(op).packed;
  ops.push_back(op);
}

// Loads, then what is computed, then stores; a branch comes last. A plain move between memory and
// a register is the load or the store alone.
void Lowered::lower(const stream::Block& block, std::uint32_t index,
                    std::span<const std::uint8_t> bytes, std::uint32_t& operation) {
  const stream::Instruction& one = code_.instructions[block.first_instruction + index];
  const Work work = code::work_of(bytes);
  instructions.push_back({one.address,
                          static_cast<std::uint32_t>(ops.size()),
                          0,
                          one.length,
                          work.flow,
                          lines_of(index, one),
                          {}});
  Accesses accesses{block.first_operation, operation, operation, 0, 0};
  for (; operation < block.operations; ++operation) {
    const stream::Operation& access = code_.operations[block.first_operation + operation];
    if (access.instruction != index) break;
    if (access.is_prefetch()) {
      push_prefetch(work, operation++);
      return;
    }
    accesses.loads += access.kind != SS_OP_KIND_STORE;
    accesses.stores += access.kind != SS_OP_KIND_LOAD;
  }
  accesses.end = operation;
  // Capture leaves out loads whose result nobody uses; a core does not.
  const bool unseen = work.loads && accesses.begin == accesses.end;
  accesses.loads += unseen;
  const bool plain = work.kind == WorkKind::kMove, branch = work.kind == WorkKind::kBranch;
  const bool alone =
      plain && (accesses.stores > 0 || (accesses.loads == 1 && !reads_anything(work)));
  push_loads(work, accesses, alone && accesses.stores == 0);
  if (unseen) push_unseen(work, alone);
  if (branch) push_stores(work, accesses, 0);
  if (!alone) {
    MicroOp compute = compute_of(work);
    if (accesses.loads > 0) add_source(compute, kTemporary);
    if (accesses.loads > 1) add_source(compute, kTemporary + 1);
    if (accesses.stores > 0 && !branch) compute.results[2] = kResult;
    push(compute);
  }
  if (!branch)
    push_stores(work, accesses, !alone ? kResult : accesses.loads > 0 ? kTemporary : work.reads[0]);
}

std::uint8_t Lowered::lines_of(std::uint32_t index, const stream::Instruction& one) const {
  const std::uint64_t last = one.address + std::max<std::uint8_t>(one.length, 1) - 1;
  const std::uint8_t crosses = (one.address ^ last) >> line_bits_ ? 2 : 0;
  if (index == 0) return crosses | 1;
  const CoreInstruction& before = instructions.back();
  const std::uint64_t end = before.address + std::max<std::uint8_t>(before.length, 1) - 1;
  return crosses | ((end ^ one.address) >> line_bits_ ? 1 : 0);
}

void Lowered::push_loads(const Work& work, const Accesses& accesses, bool gives_result) {
  std::uint8_t temporary = 0;
  for (std::uint32_t i = accesses.begin; i < accesses.end; ++i) {
    if (code_.operations[accesses.first + i].kind == SS_OP_KIND_STORE) continue;
    MicroOp load = access_of(work, MicroKind::load, i);
    if (gives_result)
      set_results(load, work);
    else
      load.results[0] = static_cast<std::uint8_t>(kTemporary + (temporary++ & 1));
    if (work.stacks && i == accesses.begin) load.stepped = code::kStackPointer;
    push(load);
  }
}

// All that it does; it does nothing else.
void Lowered::push_prefetch(const Work& work, std::uint32_t operation) {
  push(access_of(work, MicroKind::prefetch, operation));
}

void Lowered::push_unseen(const Work& work, bool gives_result) {
  MicroOp load = access_of(work, MicroKind::load, kNoOperation);
  if (gives_result)
    set_results(load, work);
  else
    load.results[0] = kTemporary;
  if (work.stacks) load.stepped = code::kStackPointer;
  push(load);
}

void Lowered::push_stores(const Work& work, const Accesses& accesses, std::uint8_t data) {
  for (std::uint32_t i = accesses.begin; i < accesses.end; ++i) {
    if (code_.operations[accesses.first + i].kind == SS_OP_KIND_LOAD) continue;
    MicroOp store = access_of(work, MicroKind::store, i);
    add_source(store, data);
    if (work.stacks && accesses.loads == 0 && i == accesses.begin)
      store.stepped = code::kStackPointer;
    push(store);
  }
}

}  // namespace stallscope::pipeline
