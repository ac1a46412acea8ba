// SPDX-License-Identifier: Apache-2.0
// What one x86-64 instruction does to the general registers, as far as addresses go through it.
// Free of state: any thread may call.
#pragma once

#include <cstdint>
#include <span>

#include "base/result.h"
#include "code/decode.h"

namespace stallscope::code {

enum class Move : std::uint8_t {
  kOther,    // registers in `written` get something that is not told
  kCopy,     // to = from
  kMaybe,    // to = from, or to stays (conditional moves)
  kLoad,     // to = eight bytes at `memory`
  kLoadLow,  // to = fewer bytes at `memory`, with zeros above
  kLoadInt,  // to = fewer bytes at `memory`, with their sign above
  kStore,    // eight bytes at `memory` = from
  kAddress,  // to = the address of `memory` (lea)
  kAdd,      // to += amount
  kSum,      // to += from
  kZero,     // to = 0
  kPush,     // from, or kNoRegister for something else
  kPop,      // to, or kNoRegister
};

struct Effect {
  Move move = Move::kOther;
  RegisterNumber to = kNoRegister;
  RegisterNumber from = kNoRegister;
  std::int64_t amount = 0;
  MemoryOperand memory;
  std::uint16_t written = 0;  // a bit for each general register that changes in any way
};

// `instruction` is what decode() made of the same bytes.
Effect effect_of(std::span<const std::uint8_t> bytes, const Instruction& instruction);

}  // namespace stallscope::code
