// SPDX-License-Identifier: Apache-2.0
#include "symbols/locals.h"

#include <dwarf.h>

#include <algorithm>

namespace stallscope::symbols {
namespace {

constexpr unsigned kRegisters = 32;

bool is_register(const Dwarf_Op& operation) {
  return operation.atom >= DW_OP_reg0 && operation.atom < DW_OP_reg0 + kRegisters;
}

bool is_based(const Dwarf_Op& operation) {
  return operation.atom >= DW_OP_breg0 && operation.atom < DW_OP_breg0 + kRegisters;
}

}  // namespace

LocalReader::Frame LocalReader::frame_of(Dwarf_Die& entry) {
  Frame frame;
  auto locations = info_.locations(entry, DW_AT_frame_base);
  if (locations.size() != 1 || locations.front().operations.size() != 1) return frame;
  const Dwarf_Op& operation = locations.front().operations.front();
  if (operation.atom == DW_OP_call_frame_cfa) {
    frame.is_known = true;
  } else if (is_register(operation)) {
    frame = {Local::Place::kMemory, static_cast<std::uint8_t>(operation.atom - DW_OP_reg0), true};
  }
  return frame;
}

Function LocalReader::read(Dwarf_Die entry) {
  Function function;
  function.ranges = info_.code_ranges(entry);
  Dwarf_Die returned;
  if (info_.inherited_reference(entry, DW_AT_type, returned))
    function.returns = types_.of(returned);
  const Frame frame = frame_of(entry);
  std::vector<Ranges> scopes{function.ranges};
  for_each_entry(info_, entry, 0, [&](Dwarf_Die& inner, std::uint32_t scope, std::uint32_t& below) {
    switch (dwarf_tag(&inner)) {
      case DW_TAG_formal_parameter:
      case DW_TAG_variable:
        add_variable(inner, frame, scopes[scope], function);
        return false;
      case DW_TAG_lexical_block:
      case DW_TAG_inlined_subroutine:
      case DW_TAG_try_block:
      case DW_TAG_catch_block:
        if (auto ranges = info_.code_ranges(inner); !ranges.empty()) {
          below = static_cast<std::uint32_t>(scopes.size());
          scopes.push_back(std::move(ranges));
        }
        return true;
      default:
        return false;
    }
  });
  std::stable_sort(function.locals.begin(), function.locals.end(),
                   [](const Local& a, const Local& b) { return a.low < b.low; });
  return function;
}

void LocalReader::add_variable(Dwarf_Die& entry, const Frame& frame, const Ranges& scope,
                               Function& function) {
  Dwarf_Die type;
  Dwarf_Die holder;
  if (!info_.inherited_reference(entry, DW_AT_type, type)) return;
  const TypeId id = types_.of(type);
  if (id == kNoType) return;
  if (types_.get(id).kind == TypeKind::kPointer && function.declared.size() < limits_.locals &&
      info_.holder(entry, DW_AT_decl_line, holder)) {
    const auto line = info_.number(holder, DW_AT_decl_line).value_or(0);
    function.declared.push_back(
        {static_cast<std::uint32_t>(std::min<std::uint64_t>(line, UINT32_MAX)), id});
  }
  if (!info_.has(entry, DW_AT_location)) return;
  for (Location& location : info_.locations(entry, DW_AT_location)) {
    if (location.low != 0) {
      add_location(location, id, frame, function);
      continue;
    }
    // One place for all of its life, which is where its scope has code.
    for (const AddressRange& range : scope) {
      if (!info_.budget().spend(1)) return;
      location.low = range.low;
      location.high = range.high;
      add_location(location, id, frame, function);
    }
  }
}

// A variable that lies in several places is told piece by piece, each piece's place first.
void LocalReader::add_location(const Location& location, TypeId type, const Frame& frame,
                               Function& function) {
  std::span<const Dwarf_Op> left = location.operations;
  std::uint64_t at = 0;
  while (!left.empty() && function.locals.size() < limits_.locals) {
    auto piece = std::find_if(left.begin(), left.end(),
                              [](const Dwarf_Op& one) { return one.atom == DW_OP_piece; });
    const bool is_piece = piece != left.end();
    const auto length = static_cast<std::size_t>(piece - left.begin());
    Local local{location.low, location.high, {}, 0, 0, type};
    if (place_of(left.first(length), frame, local)) {
      // Of a part, only its own type is of use, and only when the part is one field.
      if (is_piece) local.type = types_.field(type, at).type;
      if (local.type != kNoType) function.locals.push_back(local);
    }
    if (!is_piece) return;
    at += piece->number;
    left = left.subspan(length + 1);
  }
}

bool LocalReader::place_of(std::span<const Dwarf_Op> group, const Frame& frame, Local& local) {
  if (group.empty() || group.size() > 2) return false;
  const Dwarf_Op& first = group.front();
  const bool is_value = group.size() == 2 && group[1].atom == DW_OP_stack_value;
  if (group.size() == 2 && !is_value) return false;
  if (is_register(first) && !is_value) {
    local.place = Local::Place::kRegister;
    local.reg = static_cast<std::uint8_t>(first.atom - DW_OP_reg0);
    return true;
  }
  if (is_based(first)) {
    local.place = is_value ? Local::Place::kRegister : Local::Place::kMemory;
    local.reg = static_cast<std::uint8_t>(first.atom - DW_OP_breg0);
    local.offset = static_cast<std::int64_t>(first.number);
    return true;
  }
  if (first.atom == DW_OP_fbreg && frame.is_known && !is_value) {
    local.place = frame.place;
    local.reg = frame.reg;
    local.offset = static_cast<std::int64_t>(first.number);
    return true;
  }
  return false;
}

}  // namespace stallscope::symbols
