// SPDX-License-Identifier: Apache-2.0
// What memory holds: the sizes, members and elements of types. Qualifiers and typedefs are seen
// through. A type is read when it is first asked for and kept. Not thread-safe; borrows everything.
//
// Not told: where virtual bases lie, which the program finds out as it runs.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "symbols/debug_info.h"
#include "symbols/names.h"
#include "symbols/string_table.h"

namespace stallscope::symbols {

using TypeId = std::uint32_t;
inline constexpr TypeId kNoType = 0;  // void, functions, and whatever cannot be read

enum class TypeKind : std::uint8_t { kNone, kScalar, kPointer, kStruct, kUnion, kArray };

struct Member {
  StringId name = kNoString;  // none: an anonymous struct or union, or a base class
  TypeId type = kNoType;
  std::uint64_t offset = 0;      // bytes from the start of what holds it
  std::uint64_t size = 0;        // bytes that it touches; 0: an array without an end
  std::uint32_t bit_offset = 0;  // within the byte at `offset`
  std::uint32_t bit_size = 0;    // 0: no bitfield
  bool is_base = false;
};

struct Type {
  TypeKind kind = TypeKind::kNone;
  StringId name = kNoString;    // as its source would write it
  StringId plain = kNoString;   // the same for every name that typedefs give it
  std::uint64_t size = 0;       // bytes; 0: unknown
  TypeId target = kNoType;      // what a pointer points to, what an array has
  std::uint64_t count = 0;      // elements of an array; 0: unknown
  std::vector<Member> members;  // by offset; those of unions in their order
};

// The smallest part of a type that lies at an offset.
struct Field {
  std::string path;          // "next", "payload[1]", "pos.x"; empty for a type without parts
  std::uint64_t offset = 0;  // where it begins
  std::uint64_t size = 0;    // bytes
  TypeId type = kNoType;     // kNoType where several share the place
  bool is_padding = false;   // nothing lies there
};

class TypeTable {
 public:
  TypeTable(DebugInfo& info, Names& names, StringTable& strings, const Limits& limits);

  TypeId of(Dwarf_Die entry);
  // Valid until the table goes; an id that the table did not give is kNoType's.
  const Type& get(TypeId id);
  // Every struct, class and union that is defined under a name.
  std::vector<TypeId> all();

  // `offset` may lie behind the end of a type that ends in an array without an end.
  Field field(TypeId type, std::uint64_t offset);
  // Of what an array has, its own elements seen through: node for struct node [3][4].
  TypeId element(TypeId type);
  // Whether `outer` has a part of the same name and size as `inner`, however deep.
  bool contains(TypeId outer, std::string_view name, std::uint64_t size);

 private:
  struct Key {  // the dimensions of an array from `dimension` on are a type of their own
    const void* entry;
    std::uint32_t dimension;
    bool operator==(const Key&) const = default;
  };
  struct KeyHash {
    std::size_t operator()(const Key& key) const;
  };
  struct Slot {
    Dwarf_Die entry{};
    std::uint32_t dimension = 0;
    bool is_read = false;
    Type type;
  };
  struct Steps;  // what one question may still cost

  TypeId intern(Dwarf_Die entry, std::uint32_t dimension);
  bool see_through(Dwarf_Die& entry, Dwarf_Die& alias);
  void definition_of(Dwarf_Die& entry);
  void index_definitions();
  void read(Slot& slot);
  void read_array(Slot& slot, Type& type);
  void read_members(Dwarf_Die entry, Type& type, unsigned depth);
  void read_member(Dwarf_Die& entry, Type& type);
  bool read_bits(Dwarf_Die& entry, Type& holder, Member& member);

  Field field_in(TypeId type, std::uint64_t at, Steps& steps);
  Field field_in_array(const Type& type, std::uint64_t at, Steps& steps);
  Field field_in_members(const Type& type, std::uint64_t at, Steps& steps);
  Field field_in_member(const Member& member, std::uint64_t at, Steps& steps);
  bool contains(TypeId outer, std::string_view name, std::uint64_t size, Steps& steps);

  DebugInfo& info_;
  Names& names_;
  StringTable& strings_;
  const Limits& limits_;
  std::vector<std::unique_ptr<Slot>> slots_;  // by id
  std::unordered_map<Key, TypeId, KeyHash> ids_;
  std::uint64_t members_left_;
  bool definitions_indexed_ = false;
  std::vector<Dwarf_Off> defined_;
  std::unordered_multimap<std::string_view, Dwarf_Off> definitions_;  // by plain name
};

}  // namespace stallscope::symbols
