// SPDX-License-Identifier: Apache-2.0
// The instructions of a monitor core: 32 bits each, sixteen registers of 64 bits (r0 is always 0),
// whole numbers only, no division. Opcode 0x07 holds those that only a monitor has; the four bits
// behind it say which.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>

namespace stallscope::monitor {

enum class Opcode : std::uint8_t {
  add,
  sub,
  mul,
  band,
  bor,
  bxor,
  shl,
  shr,
  sar,
  addi,
  andi,
  ori,
  xori,
  shli,
  shri,
  sari,
  ld,
  st,
  beq,
  bne,
  blt,
  bge,
  bltu,
  bgeu,
  jal,
  jr,
  wcmpm,
  wepm,
  pmhalt,
  cpm,
  pmchk,
  pmsig,
  pmsend,
  pmtask
};

// Which fields an instruction has, in the order in which they are written.
enum class Format : std::uint8_t {
  three,    // rd, ra, rb
  literal,  // rd, ra, literal of 18 bits with a sign
  memory,   // rd, literal(ra)
  branch,   // ra, rb, words from the next instruction
  jump,     // rd, words from the next instruction
  reg,      // ra
  none,
  signal,  // literal of 14 bits, ra
  check,   // rd, literal of 14 bits
  act      // literal of 14 bits, ra, rb
};

struct Entry {
  const char* name;
  Opcode opcode;
  Format format;
  std::uint8_t code;      // bits 31..26
  std::uint8_t function;  // bits 25..22, of monitor instructions
  std::uint8_t cycles;    // apart from the one more of a branch that is taken
  const char* meaning;
};

constexpr std::uint8_t kMonitorCode = 0x07;
constexpr unsigned kRegisters = 16;
constexpr unsigned kLiteralBits = 18, kSignalBits = 14;

// The only list of instructions. Code 0 is none, so that empty memory does not run.
std::span<const Entry> instructions();

struct Instruction {
  Opcode opcode;
  std::uint8_t rd = 0, ra = 0, rb = 0;
  std::int32_t literal = 0;
};

// Fields that the format does not have are left out.
std::uint32_t encode(const Instruction& instruction);
// Nothing when no instruction looks like this.
std::optional<Instruction> decode(std::uint32_t word);
const Entry& entry_of(Opcode opcode);

}  // namespace stallscope::monitor
