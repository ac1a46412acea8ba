// SPDX-License-Identifier: Apache-2.0
// The variables of one function, inlined ones included: what they are and where they lie at which
// address of its code.
#pragma once

#include <cstdint>
#include <vector>

#include "symbols/debug_info.h"
#include "symbols/types.h"

namespace stallscope::symbols {

struct Local {  // a variable, or a part of one, for a stretch of code
  enum class Place : std::uint8_t {
    kRegister,  // it is what the register holds plus `offset`
    kMemory,    // it lies where the register points to, plus `offset`
    kFrame,     // it lies at the frame's canonical address plus `offset`
  };
  std::uint64_t low;
  std::uint64_t high;
  Place place;
  std::uint8_t reg;  // as DWARF numbers them
  std::int64_t offset;
  TypeId type;
};

struct Declared {  // a pointer, whether or not anybody knows where it lies
  std::uint32_t line;
  TypeId type;
  bool operator==(const Declared&) const = default;
};

struct Function {
  std::vector<AddressRange> ranges;
  TypeId returns = kNoType;
  std::vector<Local> locals;       // by low
  std::vector<Declared> declared;  // each once for every inlined copy
};

class LocalReader {
 public:
  LocalReader(DebugInfo& info, TypeTable& types, const Limits& limits)
      : info_(info), types_(types), limits_(limits) {}

  // `entry` is that of a function with code.
  Function read(Dwarf_Die entry);

 private:
  struct Frame {  // what DW_OP_fbreg counts from
    Local::Place place = Local::Place::kFrame;
    std::uint8_t reg = 0;
    bool is_known = false;
  };
  Frame frame_of(Dwarf_Die& entry);
  using Ranges = std::vector<AddressRange>;
  void add_variable(Dwarf_Die& entry, const Frame& frame, const Ranges& scope, Function& function);
  void add_location(const Location& location, TypeId type, const Frame& frame, Function& function);
  bool place_of(std::span<const Dwarf_Op> group, const Frame& frame, Local& local);

  DebugInfo& info_;
  TypeTable& types_;
  const Limits& limits_;
};

}  // namespace stallscope::symbols
