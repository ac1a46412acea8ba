// SPDX-License-Identifier: Apache-2.0
#include "monitor/isa.h"

namespace stallscope::monitor {
namespace {

using enum Opcode;
using enum Format;

constexpr std::array kInstructions = {
    Entry{"add", add, three, 0x01, 0, 1, "rd = ra + rb"},
    Entry{"sub", sub, three, 0x02, 0, 1, "rd = ra - rb"},
    Entry{"mul", mul, three, 0x03, 0, 3, "rd = ra * rb"},
    Entry{"and", band, three, 0x04, 0, 1, "rd = ra & rb"},
    Entry{"or", bor, three, 0x05, 0, 1, "rd = ra | rb"},
    Entry{"xor", bxor, three, 0x06, 0, 1, "rd = ra ^ rb"},
    Entry{"shl", shl, three, 0x08, 0, 1, "rd = ra << rb"},
    Entry{"shr", shr, three, 0x09, 0, 1, "rd = ra >> rb"},
    Entry{"sar", sar, three, 0x0a, 0, 1, "rd = ra >> rb, with its sign"},
    Entry{"addi", addi, literal, 0x10, 0, 1, "rd = ra + literal"},
    Entry{"andi", andi, literal, 0x11, 0, 1, "rd = ra & literal"},
    Entry{"ori", ori, literal, 0x12, 0, 1, "rd = ra | literal"},
    Entry{"xori", xori, literal, 0x13, 0, 1, "rd = ra ^ literal"},
    Entry{"shli", shli, literal, 0x14, 0, 1, "rd = ra << literal"},
    Entry{"shri", shri, literal, 0x15, 0, 1, "rd = ra >> literal"},
    Entry{"sari", sari, literal, 0x16, 0, 1, "rd = ra >> literal, with its sign"},
    // The scratch-pad has one port, and fetching waits for it.
    Entry{"ld", ld, memory, 0x20, 0, 2, "rd = the word at ra + literal"},
    Entry{"st", st, memory, 0x21, 0, 2, "the word at ra + literal = rd"},
    Entry{"beq", beq, branch, 0x28, 0, 1, "go there when ra = rb"},
    Entry{"bne", bne, branch, 0x29, 0, 1, "go there when ra and rb differ"},
    Entry{"blt", blt, branch, 0x2a, 0, 1, "go there when ra < rb, with signs"},
    Entry{"bge", bge, branch, 0x2b, 0, 1, "go there when ra >= rb, with signs"},
    Entry{"bltu", bltu, branch, 0x2c, 0, 1, "go there when ra < rb"},
    Entry{"bgeu", bgeu, branch, 0x2d, 0, 1, "go there when ra >= rb"},
    Entry{"jal", jal, jump, 0x2e, 0, 1, "rd = address of the next instruction; go there"},
    Entry{"jr", jr, reg, 0x2f, 0, 1, "go to the address in ra"},
    Entry{"wcmpm", wcmpm, signal, kMonitorCode, 0, 1, "the signal's detector: every ra-th event"},
    Entry{"wepm", wepm, signal, kMonitorCode, 1, 2, "the signal's handler is at ra; 0: off"},
    Entry{"pmhalt", pmhalt, none, kMonitorCode, 2, 1, "the task has ended"},
    Entry{"cpm", cpm, none, kMonitorCode, 3, 2, "drop all tasks, turn all detectors off"},
    Entry{"pmchk", pmchk, check, kMonitorCode, 4, 1, "rd = the state of a feature of the machine"},
    Entry{"pmsig", pmsig, act, kMonitorCode, 5, 2, "change a feature to ra, or interrupt core ra"},
    Entry{"pmsend", pmsend, act, kMonitorCode, 6, 1, "send ra as signal rb to a monitor"},
    Entry{"pmtask", pmtask, signal, kMonitorCode, 7, 1, "queue a task of the signal, data ra"},
};

constexpr std::uint32_t field(std::uint32_t value, unsigned shift, unsigned bits) {
  return (value & ((1u << bits) - 1)) << shift;
}
constexpr std::uint32_t taken(std::uint32_t word, unsigned shift, unsigned bits) {
  return word >> shift & ((1u << bits) - 1);
}
constexpr std::int32_t with_sign(std::uint32_t value, unsigned bits) {
  const std::uint32_t sign = 1u << (bits - 1);
  return static_cast<std::int32_t>(value ^ sign) - static_cast<std::int32_t>(sign);
}

const Entry* find(std::uint8_t code, std::uint8_t function) {
  for (const Entry& entry : kInstructions)
    if (entry.code == code && (code != kMonitorCode || entry.function == function)) return &entry;
  return nullptr;
}

}  // namespace

std::span<const Entry> instructions() { return kInstructions; }

const Entry& entry_of(Opcode opcode) { return kInstructions[static_cast<std::size_t>(opcode)]; }

std::uint32_t encode(const Instruction& of) {
  const Entry& entry = entry_of(of.opcode);
  const auto number = static_cast<std::uint32_t>(of.literal);
  const std::uint32_t head = field(entry.code, 26, 6);
  switch (entry.format) {
    case three:
      return head | field(of.rd, 22, 4) | field(of.ra, 18, 4) | field(of.rb, 14, 4);
    case literal:
    case memory:
      return head | field(of.rd, 22, 4) | field(of.ra, 18, 4) | field(number, 0, kLiteralBits);
    case branch:
      return head | field(of.ra, 22, 4) | field(of.rb, 18, 4) | field(number, 0, kLiteralBits);
    case jump:
      return head | field(of.rd, 22, 4) | field(number, 0, kLiteralBits);
    case reg:
      return head | field(of.ra, 18, 4);
    default:
      return head | field(entry.function, 22, 4) |
             field(entry.format == check ? of.rd : of.ra, 18, 4) | field(of.rb, 14, 4) |
             field(number, 0, kSignalBits);
  }
}

std::optional<Instruction> decode(std::uint32_t word) {
  const Entry* entry = find(static_cast<std::uint8_t>(taken(word, 26, 6)),
                            static_cast<std::uint8_t>(taken(word, 22, 4)));
  if (!entry) return std::nullopt;
  Instruction found{entry->opcode};
  const auto high = static_cast<std::uint8_t>(taken(word, 22, 4));
  const auto middle = static_cast<std::uint8_t>(taken(word, 18, 4));
  const auto low = static_cast<std::uint8_t>(taken(word, 14, 4));
  const bool is_branch = entry->format == branch;
  if (entry->code == kMonitorCode) {
    (entry->format == check ? found.rd : found.ra) = middle;
    found.rb = low;
    found.literal = static_cast<std::int32_t>(taken(word, 0, kSignalBits));
    return encode(found) == word ? std::optional(found) : std::nullopt;
  }
  (is_branch ? found.ra : found.rd) = high;
  (is_branch ? found.rb : found.ra) = middle;
  if (entry->format == three)
    found.rb = low;
  else
    found.literal = with_sign(taken(word, 0, kLiteralBits), kLiteralBits);
  return encode(found) == word ? std::optional(found) : std::nullopt;
}

}  // namespace stallscope::monitor
