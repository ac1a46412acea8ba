// SPDX-License-Identifier: Apache-2.0
#include "symbols/types.h"

#include <dwarf.h>

#include <algorithm>

namespace stallscope::symbols {
namespace {

constexpr unsigned kMaxVariantDepth = 4;  // variant parts within variants

bool is_composite(int tag) {
  return tag == DW_TAG_structure_type || tag == DW_TAG_class_type || tag == DW_TAG_union_type;
}

TypeKind kind_of(int tag) {
  switch (tag) {
    case DW_TAG_pointer_type:
    case DW_TAG_reference_type:
    case DW_TAG_rvalue_reference_type:
      return TypeKind::kPointer;
    case DW_TAG_structure_type:
    case DW_TAG_class_type:
      return TypeKind::kStruct;
    case DW_TAG_union_type:
      return TypeKind::kUnion;
    case DW_TAG_array_type:
      return TypeKind::kArray;
    case DW_TAG_base_type:
    case DW_TAG_enumeration_type:
    case DW_TAG_ptr_to_member_type:
      return TypeKind::kScalar;
    default:
      return TypeKind::kNone;
  }
}

}  // namespace

std::size_t TypeTable::KeyHash::operator()(const Key& key) const {
  auto address = static_cast<std::uint64_t>(reinterpret_cast<std::uintptr_t>(key.entry));
  return (address ^ std::uint64_t{key.dimension} << 56) * 0x9E37'79B9'7F4A'7C15;
}

TypeTable::TypeTable(DebugInfo& info, Names& names, StringTable& strings, const Limits& limits)
    : info_(info),
      names_(names),
      strings_(strings),
      limits_(limits),
      members_left_(limits.members) {
  slots_.push_back(std::make_unique<Slot>());
  slots_.front()->is_read = true;
}

// To the type that says what lies in memory; `alias` becomes the first typedef on the way.
bool TypeTable::see_through(Dwarf_Die& entry, Dwarf_Die& alias) {
  for (std::uint32_t depth = 0; depth < limits_.type_depth; ++depth) {
    switch (dwarf_tag(&entry)) {
      case DW_TAG_typedef:
        if (alias.addr == nullptr) alias = entry;
        break;
      case DW_TAG_const_type:
      case DW_TAG_volatile_type:
      case DW_TAG_restrict_type:
      case DW_TAG_atomic_type:
        break;
      default:
        return true;
    }
    Dwarf_Die target;
    if (!info_.reference(entry, DW_AT_type, target)) return false;
    entry = target;
  }
  return false;
}

// Numbers keep the name that a typedef gives them, as uint32_t; a struct without a name is called
// by the first typedef that leads to it.
TypeId TypeTable::of(Dwarf_Die entry) {
  Dwarf_Die alias{};
  if (!see_through(entry, alias)) return kNoType;
  const int tag = dwarf_tag(&entry);
  if (kind_of(tag) == TypeKind::kNone) return kNoType;
  const bool is_alias = kind_of(tag) == TypeKind::kScalar && alias.addr != nullptr;
  const TypeId id = intern(is_alias ? alias : entry, 0);
  if (id == kNoType || alias.addr == nullptr || slots_[id]->type.name != kNoString) return id;
  slots_[id]->entry = entry;
  if (is_alias || (is_composite(tag) && info_.text(entry, DW_AT_name).empty()))
    slots_[id]->type.name = strings_.id(names_.type(alias));
  return id;
}

TypeId TypeTable::intern(Dwarf_Die entry, std::uint32_t dimension) {
  auto known = ids_.find({entry.addr, dimension});
  if (known != ids_.end()) return known->second;
  if (slots_.size() > limits_.types) return kNoType;
  const auto id = static_cast<TypeId>(slots_.size());
  slots_.push_back(std::make_unique<Slot>());
  slots_.back()->entry = entry;
  slots_.back()->dimension = dimension;
  ids_.emplace(Key{entry.addr, dimension}, id);
  return id;
}

const Type& TypeTable::get(TypeId id) {
  Slot& slot = *slots_[id < slots_.size() ? id : kNoType];
  if (!slot.is_read) {
    slot.is_read = true;
    read(slot);
  }
  return slot.type;
}

void TypeTable::read(Slot& slot) {
  Type& type = slot.type;
  type.kind = kind_of(dwarf_tag(&slot.entry));
  if (info_.has(slot.entry, DW_AT_declaration)) definition_of(slot.entry);
  if (type.kind == TypeKind::kArray) return read_array(slot, type);
  const bool is_named = type.name != kNoString;
  if (!is_named) type.name = strings_.id(names_.type(slot.entry));
  type.plain =
      is_named && type.kind == TypeKind::kScalar ? strings_.id(names_.type(slot.entry)) : type.name;
  type.size = names_.type_size(slot.entry);
  Dwarf_Die target;
  if (type.kind == TypeKind::kPointer && info_.reference(slot.entry, DW_AT_type, target)) {
    type.target = of(target);
  }
  if (type.kind == TypeKind::kStruct || type.kind == TypeKind::kUnion) {
    read_members(slot.entry, type, 0);
    if (type.kind == TypeKind::kStruct) {
      std::stable_sort(type.members.begin(), type.members.end(),
                       [](const Member& a, const Member& b) { return a.offset < b.offset; });
    }
  }
}

// int [3][4] has three int [4]. A dimension of 0 elements is one that is not told.
void TypeTable::read_array(Slot& slot, Type& type) {
  auto dimensions = names_.dimensions(slot.entry);
  Dwarf_Die target;
  const bool has_target = info_.reference(slot.entry, DW_AT_type, target);
  if (slot.dimension < dimensions.size()) type.count = dimensions[slot.dimension];
  if (slot.dimension + 1 < dimensions.size()) {
    type.target = intern(slot.entry, slot.dimension + 1);
  } else if (has_target) {
    type.target = of(target);
  }
  type.size = has_target ? names_.type_size(target) : 0;
  std::string text = (has_target ? names_.type(target) : "void") + " ";
  for (std::size_t i = slot.dimension; i < dimensions.size(); ++i) {
    if (__builtin_mul_overflow(type.size, dimensions[i], &type.size)) type.size = 0;
    text += '[';
    if (dimensions[i] != 0) text += std::to_string(dimensions[i]);
    text += ']';
  }
  type.name = type.plain = strings_.id(slot.dimension == 0 ? names_.type(slot.entry) : text);
}

// Members of variants (Rust's enums) lie over each other like those of a union.
void TypeTable::read_members(Dwarf_Die entry, Type& type, unsigned depth) {
  Dwarf_Die child;
  bool more = info_.child(entry, child);
  while (more) {
    switch (dwarf_tag(&child)) {
      case DW_TAG_member:
      case DW_TAG_inheritance:
        read_member(child, type);
        break;
      case DW_TAG_variant_part:
      case DW_TAG_variant:
        if (depth < kMaxVariantDepth) read_members(child, type, depth + 1);
        break;
      default:
        break;
    }
    Dwarf_Die next;
    more = info_.sibling(child, next);
    child = next;
  }
}

void TypeTable::read_member(Dwarf_Die& entry, Type& type) {
  // A static member is a variable that lies elsewhere.
  if (info_.has(entry, DW_AT_declaration) || info_.has(entry, DW_AT_external)) return;
  if (members_left_ == 0) return;
  Member member;
  member.is_base = dwarf_tag(&entry) == DW_TAG_inheritance;
  auto offset = info_.member_offset(entry);
  if (!offset || *offset > type.size || (member.is_base && info_.has(entry, DW_AT_virtuality))) {
    return;
  }
  member.offset = *offset;
  if (!member.is_base) member.name = strings_.id(info_.text(entry, DW_AT_name));
  Dwarf_Die target;
  if (info_.reference(entry, DW_AT_type, target)) {
    member.type = of(target);
    member.size = names_.type_size(target);
  }
  if (!read_bits(entry, type, member) || member.size > type.size - member.offset) return;
  --members_left_;
  type.members.push_back(member);
}

// Newer compilers count a bitfield's bits from the start of the struct; older ones from the most
// significant end of the storage unit that holds it. False when it lies outside of its struct.
bool TypeTable::read_bits(Dwarf_Die& entry, Type& holder, Member& member) {
  auto bits = info_.number(entry, DW_AT_bit_size);
  if (!bits) return true;
  std::uint64_t first = 0;
  if (auto from_start = info_.number(entry, DW_AT_data_bit_offset)) {
    first = *from_start;
  } else if (auto from_end = info_.number(entry, DW_AT_bit_offset)) {
    std::uint64_t unit = 8 * info_.number(entry, DW_AT_byte_size).value_or(member.size);
    if (unit > 1024 || *from_end > unit || *bits > unit - *from_end) return false;
    first = 8 * member.offset + unit - *from_end - *bits;
  } else {
    first = 8 * member.offset;
  }
  if (*bits == 0 || *bits > 1024 || first / 8 >= holder.size) return false;
  member.offset = first / 8;
  member.bit_offset = static_cast<std::uint32_t>(first % 8);
  member.bit_size = static_cast<std::uint32_t>(*bits);
  member.size = (member.bit_offset + *bits + 7) / 8;
  return true;
}

// From a declaration to the type unit that it names, else to a definition with the same full name
// in another unit.
void TypeTable::definition_of(Dwarf_Die& entry) {
  Dwarf_Die found;
  if (info_.reference(entry, DW_AT_signature, found) && is_composite(dwarf_tag(&found))) {
    entry = found;
    return;
  }
  std::string_view plain = info_.text(entry, DW_AT_name);
  if (plain.empty()) return;
  if (!definitions_indexed_) index_definitions();
  auto [first, last] = definitions_.equal_range(plain);
  if (first == last) return;
  constexpr int kMaxTries = 16;
  const std::string wanted = names_.type(entry);
  for (int tries = 0; first != last && tries < kMaxTries; ++first, ++tries) {
    if (info_.entry_at(first->second, found) && names_.type(found) == wanted) {
      entry = found;
      return;
    }
  }
}

void TypeTable::index_definitions() {
  definitions_indexed_ = true;
  for (const Unit& unit : info_.units()) {
    Dwarf_Die root;
    if (!info_.entry_at(unit.entry, root)) continue;
    for_each_entry(info_, root, 0, [&](Dwarf_Die& entry, std::uint32_t, std::uint32_t&) {
      const int tag = dwarf_tag(&entry);
      if (tag == DW_TAG_namespace || tag == DW_TAG_module) return true;
      if (!is_composite(tag) || defined_.size() >= limits_.types) return false;
      std::string_view name = info_.text(entry, DW_AT_name);
      if (!name.empty() && !info_.has(entry, DW_AT_declaration)) {
        defined_.push_back(dwarf_dieoffset(&entry));
        definitions_.emplace(name, defined_.back());
      }
      return true;  // for the types that are declared inside
    });
  }
}

std::vector<TypeId> TypeTable::all() {
  if (!definitions_indexed_) index_definitions();
  std::vector<TypeId> ids;
  for (Dwarf_Off offset : defined_) {
    Dwarf_Die entry;
    TypeId id = info_.entry_at(offset, entry) ? of(entry) : kNoType;
    if (id != kNoType) ids.push_back(id);
  }
  return ids;
}

TypeId TypeTable::element(TypeId type) {
  for (std::uint32_t depth = 0; depth < limits_.type_depth; ++depth) {
    if (get(type).kind != TypeKind::kArray) return type;
    type = get(type).target;
  }
  return kNoType;
}

}  // namespace stallscope::symbols
