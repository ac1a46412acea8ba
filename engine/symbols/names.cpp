// SPDX-License-Identifier: Apache-2.0
#include "symbols/names.h"

#include <dwarf.h>

#include <algorithm>

#include "symbols/demangle.h"
#include "symbols/string_table.h"

namespace stallscope::symbols {
namespace {

constexpr std::size_t kMaxChildrenKept = 1'000'000;
constexpr int kMaxNestedScopes = 3;  // a lambda in a function in a local class is common
constexpr int kMaxOrigins = 8;

Language language_of(std::uint64_t code) {
  switch (code) {
    case DW_LANG_C:
    case DW_LANG_C89:
    case DW_LANG_C99:
    case DW_LANG_C11:
    case DW_LANG_ObjC:
    case DW_LANG_Mips_Assembler:
      return Language::c;
    case DW_LANG_C_plus_plus:
    case DW_LANG_C_plus_plus_03:
    case DW_LANG_C_plus_plus_11:
    case DW_LANG_C_plus_plus_14:
    case DW_LANG_ObjC_plus_plus:
      return Language::cplusplus;
    case DW_LANG_Rust:
      return Language::rust;
    default:
      return Language::other;
  }
}

bool lies_before(const Dwarf_Die& a, const Dwarf_Die& b) { return a.addr < b.addr; }

}  // namespace

Language Names::language(Dwarf_Die entry) {
  Dwarf_Die unit;
  if (!info_.unit_of(entry, unit)) return last_language_;
  // Partial units, into which dwz moves what several units share, often do not say. They are
  // reached from a unit that does.
  if (auto code = info_.number(unit, DW_AT_language)) last_language_ = language_of(*code);
  return last_language_;
}

std::string Names::linkage_name(Dwarf_Die entry) {
  std::string_view name = info_.inherited_text(entry, DW_AT_linkage_name);
  if (name.empty()) name = info_.inherited_text(entry, DW_AT_MIPS_linkage_name);
  return std::string(name);
}

Dwarf_Die Names::declaration_of(Dwarf_Die entry) {
  Dwarf_Die next;
  for (int hop = 0; hop < kMaxOrigins && info_.origin(entry, next); ++hop) entry = next;
  return entry;
}

std::string Names::function(Dwarf_Die entry) {
  types_left_ = kMaxTypes;
  return function_text(entry);
}

std::string Names::function_text(Dwarf_Die entry) {
  std::string linkage = linkage_name(entry);
  if (!linkage.empty()) {
    std::string demangled = demangle(linkage.c_str());
    if (!demangled.empty()) return demangled;
  }
  std::string name(info_.inherited_text(entry, DW_AT_name));
  if (name.empty()) return linkage;
  Language kind = language(entry);
  if (kind == Language::c || kind == Language::other) return name;
  Dwarf_Die external;
  bool is_extern_c = kind == Language::cplusplus && linkage.empty() &&
                     info_.holder(entry, DW_AT_external, external);
  if (is_extern_c) return name;
  Dwarf_Die declaration = declaration_of(entry);
  std::string text = scope(declaration) + name;
  if (kind == Language::cplusplus) text += "(" + parameters(declaration, 0) + ")";
  return text;
}

std::string Names::variable(Dwarf_Die entry, bool is_outermost) {
  types_left_ = kMaxTypes;
  std::string linkage = linkage_name(entry);
  if (!linkage.empty()) {
    std::string demangled = demangle(linkage.c_str());
    if (!demangled.empty()) return demangled;
  }
  std::string name(info_.inherited_text(entry, DW_AT_name));
  if (name.empty()) return linkage;
  language(entry);
  Dwarf_Die declaration = declaration_of(entry);
  if (is_outermost && declaration.addr == entry.addr) return name;
  return scope(declaration) + name;
}

const std::vector<Dwarf_Die>& Names::children(Dwarf_Die entry) {
  if (children_kept_ > kMaxChildrenKept) {
    children_.clear();
    children_kept_ = 0;
  }
  auto [known, is_new] = children_.try_emplace(entry.addr);
  if (!is_new) return known->second;
  Dwarf_Die child;
  bool more = info_.child(entry, child);
  while (more) {
    known->second.push_back(child);
    Dwarf_Die next;
    more = info_.sibling(child, next);
    child = next;
  }
  children_kept_ += known->second.size() + 1;
  return known->second;
}

// Everything that encloses the entry, outermost first, each followed by "::".
std::string Names::scope(Dwarf_Die entry) {
  std::string text;
  Dwarf_Die at;
  if (scopes_open_ >= kMaxNestedScopes || !info_.unit_of(entry, at)) return text;
  ++scopes_open_;
  for (std::uint32_t level = 0; level < info_.limits().entry_depth; ++level) {
    const std::vector<Dwarf_Die>& inner = children(at);
    auto after = std::upper_bound(inner.begin(), inner.end(), entry, lies_before);
    if (after == inner.begin() || (after - 1)->addr == entry.addr) break;
    at = *(after - 1);
    text = scope_step(at, text);
    if (text.size() > kMaxNameBytes) break;
  }
  --scopes_open_;
  return text;
}

std::string Names::scope_step(Dwarf_Die entry, const std::string& outer) {
  std::string name(info_.text(entry, DW_AT_name));
  switch (dwarf_tag(&entry)) {
    case DW_TAG_namespace:
      return outer + (name.empty() ? "(anonymous namespace)" : name) + "::";
    case DW_TAG_class_type:
    case DW_TAG_structure_type:
    case DW_TAG_union_type:
    case DW_TAG_enumeration_type:
      // A class without a name inside a function is nearly always a lambda's.
      if (name.empty()) name = outer.ends_with(")::") ? "{lambda}" : "{unnamed}";
      return outer + name + "::";
    case DW_TAG_subprogram: {
      std::string text = function_text(entry);
      // C names a function without its parameters; here it must not look like a namespace.
      if (!text.ends_with(')') && last_language_ != Language::rust) text += "()";
      return text + "::";
    }
    default:
      return outer;
  }
}

}  // namespace stallscope::symbols
