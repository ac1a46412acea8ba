// SPDX-License-Identifier: Apache-2.0
#include "symbols/unit_index.h"

#include <dwarf.h>

#include <algorithm>

namespace stallscope::symbols {
namespace {

constexpr std::uint32_t kInPattern = kNothing - 1;

std::uint32_t small(std::optional<std::uint64_t> value) {
  return value && *value <= INT32_MAX ? static_cast<std::uint32_t>(*value) : 0;
}

}  // namespace

UnitIndex::UnitIndex(DebugInfo& info, const Unit& unit, Allowance& allowance) {
  Dwarf_Die entry;
  if (!info.entry_at(unit.entry, entry)) return;
  read_scopes(info, entry, allowance);
  auto offset = info.number(entry, DW_AT_stmt_list);
  if (!offset) return;
  auto is_code = [&](std::uint64_t address) { return info.image().is_code(address); };
  if (lines_.read_header(info.line_sections(), *offset, info.text(entry, DW_AT_comp_dir),
                         info.budget())) {
    lines_.read_rows(is_code, allowance.line_rows, info.budget());
  }
}

// What children get is the number of the scope around them, or kInPattern inside of a function
// without code (the pattern of an inlined one), or kNothing outside of functions.
void UnitIndex::read_scopes(DebugInfo& info, Dwarf_Die unit, Allowance& allowance) {
  bool is_rust = info.number(unit, DW_AT_language).value_or(0) == DW_LANG_Rust;
  auto visit = [&](Dwarf_Die& entry, std::uint32_t around, std::uint32_t& for_children) {
    std::uint32_t parent = around == kInPattern ? kNothing : around;
    switch (dwarf_tag(&entry)) {
      case DW_TAG_subprogram:
        for_children = add_scope(info, entry, kNothing, allowance);
        if (for_children != kNothing) return true;
        for_children = kInPattern;
        return !info.has(entry, DW_AT_declaration);
      case DW_TAG_inlined_subroutine:
        for_children = add_scope(info, entry, parent, allowance);
        // Without code of its own it is no frame, but what it called may have some.
        if (for_children == kNothing) for_children = around;
        return true;
      case DW_TAG_lexical_block:
      case DW_TAG_try_block:
      case DW_TAG_catch_block:
      case DW_TAG_namespace:
      case DW_TAG_module:
        return true;
      // Most types only declare functions. Rust defines them there, and C++ where the type is
      // itself local to a function (as lambdas are).
      case DW_TAG_class_type:
      case DW_TAG_structure_type:
      case DW_TAG_union_type:
      case DW_TAG_enumeration_type:
        return is_rust || around != kNothing;
      default:
        return false;
    }
  };
  for_each_entry(info, unit, kNothing, visit);
  index_ = IntervalMap::build(std::move(intervals_));
  intervals_ = {};
  scopes_.shrink_to_fit();
}

std::uint32_t UnitIndex::add_scope(DebugInfo& info, Dwarf_Die& entry, std::uint32_t parent,
                                   Allowance& allowance) {
  auto ranges = info.code_ranges(entry);
  if (ranges.empty() || allowance.scopes < ranges.size()) return kNothing;
  allowance.scopes -= static_cast<std::uint32_t>(ranges.size());
  auto scope = static_cast<std::uint32_t>(scopes_.size());
  scopes_.push_back({dwarf_dieoffset(&entry), parent, 0, 0});
  if (parent != kNothing) {
    scopes_.back().call_file = small(info.number(entry, DW_AT_call_file));
    scopes_.back().call_line = small(info.number(entry, DW_AT_call_line));
  }
  // Entries come parents first, so an inner scope has the higher number and wins.
  for (const AddressRange& range : ranges) {
    intervals_.push_back({range.low, range.high, 0, scope});
  }
  return scope;
}

}  // namespace stallscope::symbols
