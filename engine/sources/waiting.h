// SPDX-License-Identifier: Apache-2.0
// Which access a program waits for when a timer stops it, and where that access goes.
//
// A timer's interrupt is taken when the oldest instruction is done, so the program stands behind
// the instruction that it waited for (or, on other processors, on it): how far behind is the
// machine's `skid`, measured by calibrate(). The registers are those behind that instruction; an
// address is lost only when the instruction overwrote what it was made of.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "sources/function_code.h"

namespace stallscope::sources {

// Of user code, by hardware number; the last is the instruction pointer.
using UserRegisters = std::array<std::uint64_t, 17>;

enum class How : std::uint8_t {
  kNone,   // the address cannot be known
  kExact,  // from registers that the instruction left alone
  kKept,   // what it overwrote is still somewhere else
  kRead,   // what it overwrote was a pointer that is still where it was loaded from
  kNext,   // the one that the same instruction accesses next: it follows a chain
  kGiven,  // the processor said so
  kArray,  // only the array is known that it is in, not where
};

// How to get the address of an access from the registers behind it.
struct Recipe {
  struct Term {
    code::RegisterNumber source;
    std::uint8_t scale;
  };
  bool known = false;             // which instruction the program waited for
  bool computes = false;          // something that takes a while, besides what it accesses
  bool locks = false;             // an atomic operation, which takes a while by itself
  std::uint64_t instruction = 0;  // that one
  bool reads = false;             // neither: it accesses no memory
  bool writes = false;
  std::uint32_t size = 0;
  How how = How::kNone;
  struct Sum {
    std::vector<Term> terms;
    std::uint64_t constant = 0;
    bool fixed = false;  // `constant` is the file's own address: the module's bias is to be added
  };
  Sum sum;
  // A pointer or an index in memory, this many times, is to be added.
  Sum pointer;
  std::uint8_t pointer_scale = 0;  // 0: there is none
  std::uint8_t pointer_bytes = 8;
  bool pointer_signed = false;
  // Where the array begins, for when the index is lost.
  Sum array;
  bool in_array = false;

  bool accesses() const { return reads || writes; }
};

// `ip` is where the program stands, as the file's own address.
Recipe recipe_at(const FunctionCode& code, std::uint64_t ip, unsigned skid);

// How many samples stood at a place.
using CountSamples = std::function<std::uint64_t(std::uint64_t ip)>;

// How likely a thread that stands at `ip`, behind an access, waits for memory. One that computes is
// found at all instructions of a loop alike; one that waits is found behind the same access again
// and again. What neighbours that access nothing have is taken for what it would have without
// waiting, a few times over, because instructions finish in groups and all samples of a group fall
// on its first. Multiplications and the like take cycles of their own: those with a memory operand
// are compared with the slowest without one as well, and others are not compared with them. Atomic
// operations take some ten times as long as plain ones, wherever their line is.
double waits_at(const FunctionCode& code, std::uint64_t ip, unsigned skid,
                const CountSamples& samples);

// Reads eight bytes of the program's memory, if they are there.
using ReadMemory = std::function<std::optional<std::uint64_t>(std::uint64_t)>;

// What is read was overwritten long ago where it lay on the stack: an index that came from there is
// lost.
std::optional<std::uint64_t> address_of(const Recipe& recipe, const UserRegisters& registers,
                                        std::uint64_t bias, const ReadMemory& read);
// Whether it is in the page at the stack pointer. Calls and spilled registers keep that in the
// first cache, so what was waited for is not memory but what the instruction did with it.
bool is_on_top_of_stack(std::uint64_t address, const UserRegisters& registers);
// An address within the array that the access is in.
std::optional<std::uint64_t> array_of(const Recipe& recipe, const UserRegisters& registers);

}  // namespace stallscope::sources
