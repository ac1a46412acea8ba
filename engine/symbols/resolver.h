// SPDX-License-Identifier: Apache-2.0
// From addresses to frames, for many addresses at once. Not thread-safe; borrows everything.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "symbols/debug_info.h"
#include "symbols/names.h"
#include "symbols/symbols.h"
#include "symbols/symtab.h"
#include "symbols/unit_index.h"

namespace stallscope::symbols {

class Resolver {
 public:
  // `info` and `names` are null for a file without DWARF. `symbols` is called when the symbol
  // table is first needed.
  Resolver(DebugInfo* info, Names* names, std::function<const SymbolTable&()> symbols,
           StringTable& strings, const Limits& limits);

  std::vector<LocationId> resolve(std::span<const std::uint64_t> addresses);
  std::span<const Frame> frames(LocationId location) const;
  std::size_t locations() const { return first_frame_.size() - 1; }
  std::string shortfall() const;
  // The function, not an inlined one, whose code lies at the address.
  std::optional<Dwarf_Off> function_entry(std::uint64_t address);

 private:
  struct Place {  // what makes two addresses the same location
    std::uint32_t unit = kNothing;
    std::uint32_t scope = kNothing;
    const Symbol* symbol = nullptr;  // where no scope is known
    StringId file = kNoString;
    std::uint32_t line = 0;
    bool operator==(const Place&) const = default;
  };
  struct PlaceHash {
    std::size_t operator()(const Place& place) const;
  };
  struct LoadedUnit {
    UnitIndex index;
    std::vector<StringId> files;  // by the unit's number; kUnread until asked for
  };

  void index_units();
  LoadedUnit& unit(std::uint32_t number);
  StringId file(LoadedUnit& unit, std::uint32_t number);
  StringId function_of_scope(const Scope& scope);
  StringId function_of_symbol(const Symbol* symbol);
  Place place_of(std::uint64_t address);
  LocationId locate(std::uint64_t address);
  void add_frames(const Place& place, std::uint64_t address);

  DebugInfo* info_;
  Names* names_;
  std::function<const SymbolTable&()> symbols_;
  StringTable& strings_;
  const Limits& limits_;
  Allowance allowance_;

  bool units_indexed_ = false;
  IntervalMap units_;
  std::unordered_map<std::uint32_t, std::unique_ptr<LoadedUnit>> loaded_;
  std::unordered_map<const void*, StringId> functions_;  // by declaring entry
  std::unordered_map<const Symbol*, StringId> symbol_names_;
  std::unordered_map<Place, LocationId, PlaceHash> places_;
  std::vector<std::uint32_t> first_frame_;  // by location, and one past the last
  std::vector<Frame> frames_;
};

}  // namespace stallscope::symbols
