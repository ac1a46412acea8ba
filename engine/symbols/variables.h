// SPDX-License-Identifier: Apache-2.0
// Global and static variables: from DWARF with their types, the rest from the symbol tables.
#pragma once

#include <unordered_map>
#include <vector>

#include "symbols/debug_info.h"
#include "symbols/names.h"
#include "symbols/symbols.h"
#include "symbols/symtab.h"

namespace stallscope::symbols {

class VariableReader {
 public:
  // `info`, `names` and `types` are null for a file without DWARF.
  VariableReader(DebugInfo* info, Names* names, TypeTable* types, const SymbolTable& symbols,
                 StringTable& strings, const Limits& limits)
      : info_(info),
        names_(names),
        types_(types),
        symbols_(symbols),
        strings_(strings),
        limits_(limits) {}

  std::vector<Variable> read();

 private:
  void read_unit(const Unit& unit);
  void add(Dwarf_Die& entry, bool is_outermost);
  void declared_at(Dwarf_Die entry, Variable& variable);
  void add_symbols();
  StringId name_of(Dwarf_Die& entry, std::uint64_t address, bool is_outermost);
  void set_type(Dwarf_Die entry, Variable& variable);

  DebugInfo* info_;
  Names* names_;
  TypeTable* types_;
  const SymbolTable& symbols_;
  StringTable& strings_;
  const Limits& limits_;
  std::unordered_map<std::uint64_t, std::size_t> by_address_;
  std::unordered_map<const void*, LineTable> files_;  // by unit
  struct KnownType {
    StringId name;
    TypeId id;
  };
  std::unordered_map<const void*, KnownType> known_types_;  // by entry
  std::vector<Variable> variables_;
};

}  // namespace stallscope::symbols
