// SPDX-License-Identifier: Apache-2.0
// One x86-64 instruction: its length, its memory operands (hidden ones too: the stack of push, pop,
// call and ret, the strings of movs), and where control goes. Free of state: any thread may call.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"
#include "base/units.h"

namespace stallscope::code {

inline constexpr std::size_t kLongestInstruction = 15;
inline constexpr std::size_t kMostMemoryOperands = 4;

enum class Flow : std::uint8_t { kNext, kJump, kBranch, kCall, kReturn };

// Instruction sets that Valgrind 3.19 cannot run; all else is kBase.
enum class Extension : std::uint8_t { kBase, kAvx512, kAmx };

// A general register by its hardware number (rax 0, rcx 1, ... r15 15).
using RegisterNumber = std::uint8_t;
inline constexpr RegisterNumber kInstructionPointer = 16;
inline constexpr RegisterNumber kVectorRegister = 0xfe;  // the index of a gather or scatter
inline constexpr RegisterNumber kNoRegister = 0xff;

enum class SegmentBase : std::uint8_t { kZero, kFs, kGs };

struct MemoryOperand {
  std::uint32_t size = 0;  // bytes; of one element for gathers, scatters and repeated strings
  bool read = false;       // both false: the address is computed (lea) or hinted, not accessed
  bool write = false;
  bool conditional = false;  // masked or predicated: may not happen
  bool hidden = false;       // not written in the assembly text
  RegisterNumber base = kNoRegister;
  RegisterNumber index = kNoRegister;
  std::uint8_t scale = 0;
  SegmentBase segment = SegmentBase::kZero;
  std::int64_t displacement = 0;
  // The address itself, where no register but the instruction pointer goes into it.
  std::optional<Address> fixed;
};

struct Instruction {
  std::uint8_t length = 0;
  Flow flow = Flow::kNext;
  Extension extension = Extension::kBase;
  bool repeats = false;           // a rep prefix: the memory operands are those of one round
  bool locks = false;             // atomic: a lock prefix, or an exchange with memory
  bool asks_cpu = false;          // cpuid, xgetbv
  std::string_view mnemonic;      // static storage
  std::optional<Address> target;  // of a direct jump, branch or call
  std::optional<std::uint64_t> immediate;
  std::array<MemoryOperand, kMostMemoryOperands> operands;
  std::uint8_t operand_count = 0;

  std::span<const MemoryOperand> memory() const& { return {operands.data(), operand_count}; }
  void memory() const&& = delete;  // the span would outlive its instruction
};

// `bytes` may go past the instruction, and may end before it: then the answer is an Error.
Result<Instruction> decode(std::span<const std::uint8_t> bytes, Address address);

// Length and extension alone, several times faster. Length 0: these bytes are no instruction.
struct Shape {
  std::uint8_t length = 0;
  Extension extension = Extension::kBase;
};
Shape decode_shape(std::span<const std::uint8_t> bytes);

// Assembly text in Intel's notation; empty when the bytes are no instruction.
std::string disassemble(std::span<const std::uint8_t> bytes, Address address);

}  // namespace stallscope::code
