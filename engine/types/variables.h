// SPDX-License-Identifier: Apache-2.0
// Which variable of a function lies in a register or on the stack at an instruction.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "code/decode.h"
#include "symbols/interval_map.h"
#include "symbols/locals.h"

namespace stallscope::types {

class Variables {
 public:
  explicit Variables(const symbols::Function& function, symbols::TypeTable& types);

  // What register `reg` (hardware number) holds at the address, or null.
  const symbols::Local* in_register(code::RegisterNumber reg, std::uint64_t address) const {
    const std::uint32_t found = registers_[reg].find(address);
    return found == symbols::kNothing ? nullptr : &locals_[found];
  }
  // What lies `offset` bytes from the frame's canonical address, or from what a register points to,
  // or null. Where several do, the one whose stretch of code begins last, so the innermost.
  const symbols::Local* in_frame(std::int64_t offset, std::uint64_t address) const;
  const symbols::Local* in_memory(code::RegisterNumber reg, std::int64_t offset,
                                  std::uint64_t address) const;

 private:
  struct Placed {
    std::int64_t offset;
    std::int64_t end;
    std::uint32_t local;
  };
  const symbols::Local* find(const std::vector<Placed>& placed, std::int64_t offset,
                             std::uint64_t address) const;

  const std::vector<symbols::Local>& locals_;
  std::array<symbols::IntervalMap, 16> registers_;
  std::vector<Placed> frame_;                   // by offset
  std::array<std::vector<Placed>, 16> memory_;  // by register, each by offset
};

}  // namespace stallscope::types
