// SPDX-License-Identifier: Apache-2.0
// What one x86-64 instruction asks of a processor's core: the kind of work, the registers that it
// reads and writes. Memory operands appear by the registers of their addresses only; what was
// accessed is known from the recording. Free of state: any thread may call.
#pragma once

#include <cstdint>
#include <span>

namespace stallscope::code {

// Registers as a core renames them: the whole one for every part of it. 0 is none.
using CoreRegister = std::uint8_t;
inline constexpr CoreRegister kNoCoreRegister = 0;
inline constexpr CoreRegister kFirstGeneral = 1;  // rax; rsp is 5
inline constexpr CoreRegister kStackPointer = 5;
inline constexpr CoreRegister kFirstVector = 17;  // 32 of them
inline constexpr CoreRegister kFlags = 49;
inline constexpr CoreRegister kX87 = 50;        // its stack is one register here
inline constexpr CoreRegister kFirstMask = 51;  // of AVX-512, 8 of them
inline constexpr CoreRegister kCoreRegisters = 59;

enum class WorkKind : std::uint8_t {
  kNothing,  // nops and hints
  kMove,     // a plain copy between a register and memory, or between registers
  kInteger,
  kMultiply,
  kDivide,
  kVector,  // moves, logic and integer arithmetic of vector registers
  kFloatAdd,
  kFloatMultiply,
  kFloatDivide,  // and square roots
  kBranch,
  kSlow,  // serialising or microcoded
};

enum class WorkFlow : std::uint8_t {
  kNext,
  kConditional,
  kJump,
  kIndirectJump,
  kCall,
  kIndirectCall,
  kReturn
};

struct Work {
  static constexpr unsigned kMost = 4;

  WorkKind kind = WorkKind::kInteger;
  WorkFlow flow = WorkFlow::kNext;
  bool vector = false;              // a move or copy of vector registers
  bool loads = false;               // reads memory, and
  bool stores = false;              // writes it, as far as the instruction says
  bool stacks = false;              // changes the stack pointer by pushing or popping
  std::uint8_t bits = 0;            // of the operands of a division
  CoreRegister reads[kMost]{};      // data
  CoreRegister writes[3]{};         // results; flags among them
  CoreRegister addresses[kMost]{};  // bases and indices of memory operands
};

// Bytes that are no instruction are one step of kInteger.
Work work_of(std::span<const std::uint8_t> bytes);

}  // namespace stallscope::code
