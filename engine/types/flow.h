// SPDX-License-Identifier: Apache-2.0
// Follows pointers through one function's code: debug information says which variable is in which
// register at which instruction, and the code says what becomes of it in between (copies, loads of
// members that are pointers themselves, steps through an array, results of calls). So accesses are
// typed also where optimisation left no variable.
//
// Left out: what other functions do to memory, vector registers, and pointers made from numbers.
#pragma once

#include <cstdint>
#include <vector>

#include "symbols/symbols.h"
#include "types/value.h"

namespace stallscope::types {

// A memory operand through a register that is known to point to something.
struct Access {
  std::uint64_t address;  // of the instruction
  bool reads;
  bool writes;
  std::uint32_t size;
  Value at;  // kPointer or kResult; its offset is that of the access
};

// The program put what a call returned into a variable of type pointer to `type`.
struct Assignment {
  std::uint64_t call;  // address of the instruction behind the call
  symbols::TypeId type;
};

struct Followed {
  std::vector<Access> accesses;         // by address
  std::vector<Assignment> assignments;  // by call, each pair once
  std::vector<symbols::Declared> declared;
  std::uint64_t steps = 0;  // instructions looked at
};

// `function` is what `symbols` says of it. Looks at no more than about `most` instructions, each
// as often as it takes for loops to settle.
Followed follow(symbols::Symbols& symbols, const symbols::Function& function, std::uint64_t most);

}  // namespace stallscope::types
