// SPDX-License-Identifier: Apache-2.0
// The code of one unit: which function, which inlined calls and which line an address belongs to.
// Built when the first address falls into the unit. Not thread-safe.
#pragma once

#include <cstdint>
#include <vector>

#include "symbols/debug_info.h"
#include "symbols/interval_map.h"
#include "symbols/line_table.h"

namespace stallscope::symbols {

struct Scope {  // a function, or a call that was inlined into its parent
  Dwarf_Off entry;
  std::uint32_t parent;  // kNothing for a function
  std::uint32_t call_file;
  std::uint32_t call_line;
};

// What all units of a file together may still use.
struct Allowance {
  std::uint32_t scopes;
  std::uint32_t line_rows;
};

class UnitIndex {
 public:
  UnitIndex(DebugInfo& info, const Unit& unit, Allowance& allowance);

  std::uint32_t scope_at(std::uint64_t address) const { return index_.find(address); }
  const std::vector<Scope>& scopes() const { return scopes_; }
  const LineTable& lines() const { return lines_; }

 private:
  void read_scopes(DebugInfo& info, Dwarf_Die unit, Allowance& allowance);
  std::uint32_t add_scope(DebugInfo& info, Dwarf_Die& entry, std::uint32_t parent,
                          Allowance& allowance);

  std::vector<Scope> scopes_;
  std::vector<Interval> intervals_;  // while building
  IntervalMap index_;
  LineTable lines_;
};

}  // namespace stallscope::symbols
