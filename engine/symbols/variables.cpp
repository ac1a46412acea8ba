// SPDX-License-Identifier: Apache-2.0
#include "symbols/variables.h"

#include <dwarf.h>

#include <algorithm>

#include "symbols/demangle.h"

namespace stallscope::symbols {
namespace {

constexpr std::size_t kMaxFileTables = 64;

enum Position : std::uint32_t { kOutermost, kInNamespace, kInFunction };

}  // namespace

std::vector<Variable> VariableReader::read() {
  if (info_ != nullptr && names_ != nullptr) {
    for (const Unit& unit : info_->units()) read_unit(unit);
  }
  std::sort(variables_.begin(), variables_.end(),
            [](const Variable& a, const Variable& b) { return a.address < b.address; });
  add_symbols();
  return std::move(variables_);
}

void VariableReader::read_unit(const Unit& unit) {
  Dwarf_Die root;
  if (!info_->entry_at(unit.entry, root)) return;
  bool is_rust = info_->number(root, DW_AT_language).value_or(0) == DW_LANG_Rust;
  for_each_entry(*info_, root, kOutermost,
                 [&](Dwarf_Die& entry, std::uint32_t position, std::uint32_t& for_children) {
                   switch (dwarf_tag(&entry)) {
                     case DW_TAG_variable:
                       add(entry, position == kOutermost);
                       return false;
                     case DW_TAG_namespace:
                     case DW_TAG_module:
                       for_children = kInNamespace;
                       return true;
                     case DW_TAG_subprogram:
                     case DW_TAG_inlined_subroutine:
                       for_children = kInFunction;
                       return true;
                     case DW_TAG_lexical_block:
                     case DW_TAG_try_block:
                     case DW_TAG_catch_block:
                       return true;
                     // Functions, and so their statics, are defined inside of types by Rust, and
                     // by C++ where the type is itself local to a function (as lambdas are).
                     case DW_TAG_structure_type:
                     case DW_TAG_class_type:
                     case DW_TAG_union_type:
                       return is_rust || position == kInFunction;
                     default:
                       return false;
                   }
                 });
}

void VariableReader::add(Dwarf_Die& entry, bool is_outermost) {
  if (variables_.size() >= limits_.variables) return;
  auto address = info_->static_address(entry);
  // Address 0 is a variable whose section the linker threw away; others are notes to the linker.
  if (!address || *address == 0 || !info_->image().is_loaded(*address)) return;
  if (by_address_.contains(*address)) return;
  Variable variable;
  variable.address = *address;
  variable.name = name_of(entry, *address, is_outermost);
  if (variable.name == kNoString) return;
  Dwarf_Die type;
  if (info_->inherited_reference(entry, DW_AT_type, type)) {
    set_type(type, variable);
    variable.size = names_->type_size(type);
    // A definition completes what its declaration left open: extern int table[].
    Dwarf_Die own;
    if (variable.size == 0 && info_->reference(entry, DW_AT_type, own) && own.addr != type.addr) {
      set_type(own, variable);
      variable.size = names_->type_size(own);
    }
  }
  declared_at(entry, variable);
  by_address_.emplace(*address, variables_.size());
  variables_.push_back(variable);
}

// The symbol table knows the mangled names also of statics, for which DWARF gives none; they tell
// lambdas and overloads apart.
StringId VariableReader::name_of(Dwarf_Die& entry, std::uint64_t address, bool is_outermost) {
  if (const Symbol* symbol = symbols_.object_at(address)) {
    std::string demangled = demangle(plain_name(*symbol).c_str());
    if (!demangled.empty()) return strings_.id(demangled);
  }
  return strings_.id(names_->variable(entry, is_outermost));
}

void VariableReader::set_type(Dwarf_Die entry, Variable& variable) {
  auto [known, is_new] = known_types_.try_emplace(entry.addr, KnownType{kNoString, kNoType});
  if (is_new) known->second = {strings_.id(names_->type(entry)), types_->of(entry)};
  variable.type = known->second.name;
  variable.type_id = known->second.id;
}

// Line and file can stand in different entries: a definition in the file of its declaration
// repeats only the line.
void VariableReader::declared_at(Dwarf_Die entry, Variable& variable) {
  Dwarf_Die holder;
  if (!info_->holder(entry, DW_AT_decl_line, holder)) return;
  variable.line = static_cast<std::uint32_t>(
      std::min<std::uint64_t>(info_->number(holder, DW_AT_decl_line).value_or(0), INT32_MAX));
  Dwarf_Die unit;
  if (!info_->holder(entry, DW_AT_decl_file, holder) || !info_->unit_of(holder, unit)) return;
  auto file = info_->number(holder, DW_AT_decl_file);
  auto table = info_->number(unit, DW_AT_stmt_list);
  if (!file || !table) return;
  if (files_.size() > kMaxFileTables) files_.clear();
  auto [known, is_new] = files_.try_emplace(unit.addr);
  if (is_new) {
    known->second.read_header(info_->line_sections(), *table, info_->text(unit, DW_AT_comp_dir),
                              info_->budget());
  }
  variable.file = strings_.id(known->second.file_path(*file));
}

// Sizes that DWARF leaves open (flexible arrays) come from the symbol; symbols inside a variable
// that is known add nothing.
void VariableReader::add_symbols() {
  std::vector<Variable> all;
  std::size_t next = 0;
  std::uint64_t covered = 0;
  auto take_variables = [&](std::uint64_t up_to) {
    for (; next < variables_.size() && variables_[next].address <= up_to; ++next) {
      std::uint64_t end = variables_[next].address + variables_[next].size;
      covered = std::max({covered, end, variables_[next].address + 1});
      all.push_back(variables_[next]);
    }
  };
  for (const Symbol& symbol : symbols_.objects()) {
    take_variables(symbol.address);
    if (!all.empty() && all.back().address == symbol.address) {
      if (all.back().size < symbol.size && all.back().type != kNoString) {
        all.back().size = symbol.size;
        covered = std::max(covered, symbol.address + symbol.size);
      }
      continue;
    }
    if (symbol.address < covered || all.size() >= limits_.variables) continue;
    std::string plain = plain_name(symbol);
    std::string demangled = demangle(plain.c_str());
    Variable variable;
    variable.name = strings_.id(demangled.empty() ? plain : demangled);
    variable.address = symbol.address;
    variable.size = symbol.size;
    all.push_back(variable);
  }
  take_variables(UINT64_MAX);
  variables_ = std::move(all);
}

}  // namespace stallscope::symbols
