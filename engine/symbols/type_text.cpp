// SPDX-License-Identifier: Apache-2.0
// Types are written inside out, as C declares them: each entry wraps the declarator that the
// entries around it have made so far.
#include <dwarf.h>

#include <algorithm>

#include "symbols/names.h"
#include "symbols/string_table.h"

namespace stallscope::symbols {
namespace {

constexpr std::size_t kMaxDimensions = 16;

struct Spelling {
  std::string_view from;
  std::string_view to;
};

// What GCC calls the types that people and the demangler write shorter.
constexpr Spelling kSpellings[] = {
    {"long int", "long"},           {"long unsigned int", "unsigned long"},
    {"long long int", "long long"}, {"long long unsigned int", "unsigned long long"},
    {"short int", "short"},         {"short unsigned int", "unsigned short"},
};

std::string usual_spelling(std::string_view name) {
  for (const Spelling& spelling : kSpellings) {
    if (spelling.from == name) return std::string(spelling.to);
  }
  return std::string(name);
}

std::string with_declarator(std::string text, const std::string& declarator) {
  if (!declarator.empty()) text += " " + declarator;
  return text;
}

}  // namespace

std::string Names::type(Dwarf_Die entry) {
  types_left_ = kMaxTypes;
  return declare(entry, "", 0);
}

std::string Names::declare(Dwarf_Die entry, const std::string& declarator, unsigned depth) {
  if (++depth > info_.limits().type_depth || --types_left_ < 0 ||
      declarator.size() > kMaxNameBytes) {
    return with_declarator("…", declarator);
  }
  switch (dwarf_tag(&entry)) {
    case DW_TAG_pointer_type:
      return declare_pointer(entry, "*", declarator, depth);
    case DW_TAG_reference_type:
      return declare_pointer(entry, "&", declarator, depth);
    case DW_TAG_rvalue_reference_type:
      return declare_pointer(entry, "&&", declarator, depth);
    case DW_TAG_ptr_to_member_type:
      return declare_pointer(entry, member_pointer_mark(entry), declarator, depth);
    case DW_TAG_const_type:
      return declare_qualified(entry, "const", declarator, depth);
    case DW_TAG_volatile_type:
      return declare_qualified(entry, "volatile", declarator, depth);
    case DW_TAG_restrict_type:
      return declare_qualified(entry, "restrict", declarator, depth);
    case DW_TAG_atomic_type:
      return declare_qualified(entry, "_Atomic", declarator, depth);
    case DW_TAG_array_type: {
      std::string sizes;
      for (std::uint64_t size : dimensions(entry)) {
        sizes += '[';
        if (size != 0) sizes += std::to_string(size);
        sizes += ']';
      }
      return declare_target(entry, declarator + sizes, depth);
    }
    case DW_TAG_subroutine_type:
      return declare_target(entry, declarator + "(" + parameters(entry, depth) + ")", depth);
    case DW_TAG_structure_type:
      return with_declarator(named(entry, "struct"), declarator);
    case DW_TAG_class_type:
      return with_declarator(named(entry, "class"), declarator);
    case DW_TAG_union_type:
      return with_declarator(named(entry, "union"), declarator);
    case DW_TAG_enumeration_type:
      return with_declarator(named(entry, "enum"), declarator);
    case DW_TAG_typedef:
      return with_declarator(named(entry, ""), declarator);
    default:
      return with_declarator(usual_spelling(info_.text(entry, DW_AT_name)), declarator);
  }
}

std::string Names::declare_target(Dwarf_Die entry, const std::string& declarator, unsigned depth) {
  Dwarf_Die target;
  if (!info_.inherited_reference(entry, DW_AT_type, target)) {
    return with_declarator("void", declarator);
  }
  return declare(target, declarator, depth);
}

std::string Names::declare_pointer(Dwarf_Die entry, std::string mark, const std::string& declarator,
                                   unsigned depth) {
  // Rust names its pointers ("&[u8]", "*const T"), and that is how its people write them.
  std::string_view own_name = info_.text(entry, DW_AT_name);
  if (!own_name.empty()) return with_declarator(std::string(own_name), declarator);
  std::string text = mark + declarator;
  Dwarf_Die target;
  if (info_.reference(entry, DW_AT_type, target)) {
    int tag = dwarf_tag(&target);
    if (tag == DW_TAG_array_type || tag == DW_TAG_subroutine_type)
      text.insert(0, 1, '(').push_back(')');
  }
  return declare_target(entry, text, depth);
}

std::string Names::declare_qualified(Dwarf_Die entry, const std::string& qualifier,
                                     const std::string& declarator, unsigned depth) {
  Dwarf_Die target;
  bool is_pointer =
      info_.reference(entry, DW_AT_type, target) && dwarf_tag(&target) == DW_TAG_pointer_type;
  if (is_pointer) return declare_target(entry, with_declarator(qualifier, declarator), depth);
  std::string text = declare_target(entry, declarator, depth);
  // A constant array has constant elements, and both entries say so.
  return text.starts_with(qualifier + " ") ? text : qualifier + " " + text;
}

std::string Names::member_pointer_mark(Dwarf_Die entry) {
  Dwarf_Die owner;
  if (!info_.reference(entry, DW_AT_containing_type, owner)) return "*";
  return named(owner, "") + "::*";
}

std::string Names::parameters(Dwarf_Die entry, unsigned depth) {
  std::string text;
  Dwarf_Die parameter;
  bool more = info_.child(entry, parameter);
  while (more && text.size() <= kMaxNameBytes) {
    int tag = dwarf_tag(&parameter);
    std::string one;
    if (tag == DW_TAG_unspecified_parameters) one = "...";
    if (tag == DW_TAG_formal_parameter && !info_.has(parameter, DW_AT_artificial)) {
      one = declare_target(parameter, "", depth);
    }
    if (!one.empty()) text += (text.empty() ? "" : ", ") + one;
    Dwarf_Die next;
    more = info_.sibling(parameter, next);
    parameter = next;
  }
  return text;
}

std::string Names::named(Dwarf_Die entry, const char* keyword) {
  std::string name(info_.text(entry, DW_AT_name));
  std::string prefix = *keyword ? std::string(keyword) + " " : "";
  if (name.empty()) return prefix + "{...}";
  Language kind = language(entry);
  if (kind == Language::c || kind == Language::other) return prefix + name;
  return scope(entry) + name;
}

std::vector<std::uint64_t> Names::dimensions(Dwarf_Die entry) {
  std::vector<std::uint64_t> sizes;
  Dwarf_Die child;
  bool more = info_.child(entry, child);
  while (more && sizes.size() < kMaxDimensions) {
    int tag = dwarf_tag(&child);
    if (tag == DW_TAG_subrange_type || tag == DW_TAG_enumeration_type) {
      sizes.push_back(dimension(child));
    }
    Dwarf_Die next;
    more = info_.sibling(child, next);
    child = next;
  }
  return sizes;
}

std::uint64_t Names::dimension(Dwarf_Die entry) {
  if (auto count = info_.number(entry, DW_AT_count)) return *count;
  auto upper = info_.number(entry, DW_AT_upper_bound);
  std::uint64_t lower = info_.number(entry, DW_AT_lower_bound).value_or(0);
  if (!upper || *upper < lower || *upper - lower > INT64_MAX) return 0;
  return *upper - lower + 1;
}

std::uint64_t Names::type_size(Dwarf_Die entry) {
  std::uint64_t count = 1;
  std::uint64_t size = 0;
  for (std::uint32_t depth = 0; depth < info_.limits().type_depth; ++depth) {
    if (auto bytes = info_.number(entry, DW_AT_byte_size)) {
      return __builtin_mul_overflow(count, *bytes, &size) ? 0 : size;
    }
    int tag = dwarf_tag(&entry);
    if (tag == DW_TAG_pointer_type || tag == DW_TAG_reference_type) {
      return count * static_cast<std::uint64_t>(info_.image().facts().bits / 8);
    }
    if (tag == DW_TAG_array_type) {
      for (std::uint64_t dimension : dimensions(entry)) {
        if (__builtin_mul_overflow(count, dimension, &count)) return 0;
      }
    }
    Dwarf_Die target;
    if (!info_.reference(entry, DW_AT_type, target)) return 0;
    entry = target;
  }
  return 0;
}

}  // namespace stallscope::symbols
