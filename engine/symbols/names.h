// SPDX-License-Identifier: Apache-2.0
// Names of functions and variables, and the text and size of types, as their source would write
// them. Not thread-safe; borrows the DebugInfo.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "symbols/debug_info.h"

namespace stallscope::symbols {

enum class Language { c, cplusplus, rust, other };

class Names {
 public:
  explicit Names(DebugInfo& info) : info_(info) {}

  // C: "f"; C++: "ns::f(int)"; Rust: "crate::module::f". Empty when it has no name.
  std::string function(Dwarf_Die entry);
  // "table", "ns::table", "f()::counter". `is_outermost`: it stands directly in its unit.
  std::string variable(Dwarf_Die entry, bool is_outermost);
  // C: "struct node *[128]"; C++: "ns::node *[128]".
  std::string type(Dwarf_Die entry);
  // In bytes; 0 when unknown.
  std::uint64_t type_size(Dwarf_Die entry);
  // Of an array type; 0 where unknown.
  std::vector<std::uint64_t> dimensions(Dwarf_Die entry);

 private:
  Language language(Dwarf_Die entry);
  std::string function_text(Dwarf_Die entry);
  std::string linkage_name(Dwarf_Die entry);
  Dwarf_Die declaration_of(Dwarf_Die entry);
  std::string scope(Dwarf_Die entry);
  std::string scope_step(Dwarf_Die entry, const std::string& outer);
  const std::vector<Dwarf_Die>& children(Dwarf_Die entry);

  std::string declare(Dwarf_Die entry, const std::string& declarator, unsigned depth);
  std::string declare_target(Dwarf_Die entry, const std::string& declarator, unsigned depth);
  std::string declare_pointer(Dwarf_Die entry, std::string mark, const std::string& declarator,
                              unsigned depth);
  std::string declare_qualified(Dwarf_Die entry, const std::string& qualifier,
                                const std::string& declarator, unsigned depth);
  std::string parameters(Dwarf_Die entry, unsigned depth);
  std::string named(Dwarf_Die entry, const char* keyword);
  std::string member_pointer_mark(Dwarf_Die entry);
  std::uint64_t dimension(Dwarf_Die entry);

  static constexpr int kMaxTypes = 300;

  DebugInfo& info_;
  Language last_language_ = Language::other;
  // Names contain types and types contain names: a type that is local to a function that takes it
  // would never end.
  int scopes_open_ = 0;
  int types_left_ = 0;  // that the name being written may still visit
  // libdw knows no parents: the way from a unit down to an entry is found by offsets, and the
  // children on such ways are kept, by the address of their parent's entry.
  std::unordered_map<const void*, std::vector<Dwarf_Die>> children_;
  std::size_t children_kept_ = 0;
};

}  // namespace stallscope::symbols
