// SPDX-License-Identifier: Apache-2.0
// What lies at an offset of a type. Where parts lie over each other (unions, bitfields, base
// classes whose padding is used again) all that have something there are named.
#include <algorithm>

#include "symbols/types.h"

namespace stallscope::symbols {

// Damaged input can nest types without end and let every member lie over every other.
struct TypeTable::Steps {
  unsigned left = 500;
  unsigned depth = 0;
};

namespace {

constexpr std::size_t kMaxAlternatives = 3;  // named at one place
const std::string kPadding = "(padding)";

std::string joined(const std::string& outer, const std::string& inner) {
  if (outer.empty() || inner.empty() || inner.front() == '[') return outer + inner;
  return outer + "." + inner;
}

Field padding(std::uint64_t low, std::uint64_t high) {
  return {kPadding, low, high - low, kNoType, true};
}

// One name for all that lie at a place, and the bytes that they have in common.
Field together(const std::vector<Field>& fields) {
  Field all = fields.front();
  std::uint64_t end = all.offset + all.size;
  for (std::size_t i = 1; i < fields.size(); ++i) {
    const Field& one = fields[i];
    all.offset = std::max(all.offset, one.offset);
    end = std::min(end, one.offset + one.size);
    if (one.type != all.type) all.type = kNoType;
    if (i < kMaxAlternatives) all.path += "|" + one.path;
    if (i == kMaxAlternatives) all.path += "|…";
  }
  all.size = end > all.offset ? end - all.offset : 0;
  return all;
}

}  // namespace

Field TypeTable::field(TypeId type, std::uint64_t offset) {
  Steps steps;
  Field found = field_in(type, offset, steps);
  found.path = clean_text(found.path);
  return found;
}

Field TypeTable::field_in(TypeId id, std::uint64_t at, Steps& steps) {
  const Type& type = get(id);
  const bool has_parts = type.kind == TypeKind::kArray || type.kind == TypeKind::kStruct ||
                         type.kind == TypeKind::kUnion;
  if (!has_parts || steps.left == 0 || steps.depth >= limits_.type_depth) {
    return {"", 0, type.size, id, false};
  }
  --steps.left;
  ++steps.depth;
  Field found = type.kind == TypeKind::kArray ? field_in_array(type, at, steps)
                                              : field_in_members(type, at, steps);
  --steps.depth;
  return found;
}

Field TypeTable::field_in_array(const Type& type, std::uint64_t at, Steps& steps) {
  const std::uint64_t size = get(type.target).size;
  if (size == 0) return {"", 0, type.size, type.target, false};
  Field found = field_in(type.target, at % size, steps);
  std::string index = "[";
  index += std::to_string(at / size);
  index += ']';
  found.path = joined(index, found.path);
  found.offset += at - at % size;
  return found;
}

Field TypeTable::field_in_member(const Member& member, std::uint64_t at, Steps& steps) {
  if (member.bit_size != 0) {
    return {std::string(strings_.text(member.name)), member.offset, member.size, member.type,
            false};
  }
  Field found = field_in(member.type, at - member.offset, steps);
  found.path = joined(std::string(strings_.text(member.name)), found.path);
  found.offset += member.offset;
  return found;
}

Field TypeTable::field_in_members(const Type& type, std::uint64_t at, Steps& steps) {
  std::vector<Field> found;
  std::uint64_t before = 0;
  std::uint64_t after = std::max(type.size, at + 1);
  if (!info_.budget().spend(type.members.size() + 1)) return padding(before, after);
  for (const Member& member : type.members) {
    const std::uint64_t end = member.offset + member.size;
    const bool has_no_end = member.size == 0 && get(member.type).kind == TypeKind::kArray;
    if (member.offset > at) {
      after = std::min(after, member.offset);
    } else if (at < end || has_no_end) {
      Field one = field_in_member(member, at, steps);
      if (one.is_padding) {
        before = std::max(before, one.offset);
        after = std::min(after, one.offset + one.size);
      } else {
        found.push_back(std::move(one));
      }
    } else {
      before = std::max(before, end);
    }
  }
  return found.empty() ? padding(before, std::max(after, before)) : together(found);
}

bool TypeTable::contains(TypeId outer, std::string_view name, std::uint64_t size) {
  Steps steps;
  const Type& one = get(element(outer));
  if (get(outer).kind == TypeKind::kArray && one.size == size && strings_.text(one.plain) == name)
    return true;
  return contains(outer, name, size, steps);
}

bool TypeTable::contains(TypeId outer, std::string_view name, std::uint64_t size, Steps& steps) {
  outer = element(outer);
  const Type& type = get(outer);
  if (steps.left == 0 || steps.depth >= limits_.type_depth) return false;
  --steps.left;
  ++steps.depth;
  bool found = false;
  for (std::size_t i = 0; i < type.members.size() && !found && steps.left > 0; ++i) {
    const TypeId inner = element(type.members[i].type);
    const Type& one = get(inner);
    found = (one.size == size && strings_.text(one.plain) == name) ||
            contains(inner, name, size, steps);
  }
  --steps.depth;
  return found;
}

}  // namespace stallscope::symbols
