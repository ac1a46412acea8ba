// SPDX-License-Identifier: Apache-2.0
// The instructions of one function, cut where control can come in or go out.
#pragma once

#include <cstdint>
#include <vector>

#include "code/decode.h"
#include "code/effect.h"
#include "symbols/symbols.h"

namespace stallscope::types {

struct Step {
  std::uint64_t address;
  code::Instruction instruction;
  code::Effect effect;
};

struct Block {
  std::uint32_t first;  // step
  std::uint32_t count;
  std::vector<std::uint32_t> next;  // blocks; calls are taken to return
};

struct Body {
  std::vector<Step> steps;  // by address
  std::vector<Block> blocks;
  std::uint32_t entry = 0;  // block
};

// Empty when there are more than `most` instructions, or no bytes.
Body read_body(const symbols::Symbols& symbols, const symbols::Function& function,
               std::uint64_t most);

}  // namespace stallscope::types
