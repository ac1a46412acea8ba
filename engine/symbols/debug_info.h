// SPDX-License-Identifier: Apache-2.0
// The DWARF entries of one file, through libdw, with every step counted against a budget.
// libdw does not check everything: units whose abbreviations are out of proportion are left out,
// inline strings are checked here, and libdw is kept from opening files that the input names
// (split units are not followed, supplementary files only when DebugFiles found them).
// Not thread-safe.
#pragma once

#include <elfutils/libdw.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "symbols/image.h"
#include "symbols/limits.h"
#include "symbols/line_table.h"

namespace stallscope::symbols {

struct AddressRange {
  std::uint64_t low;
  std::uint64_t high;
};

struct Location {  // of a variable, for a stretch of code
  std::uint64_t low;
  std::uint64_t high;
  std::vector<Dwarf_Op> operations;
};

struct Unit {  // a compile unit
  Dwarf_Off entry;
  std::uint64_t size;  // bytes of its entries
};

class DebugInfo {
 public:
  // Null when the image has no DWARF that can be read. `alternate`, the supplementary file of dwz,
  // may be null. Both must outlive the result.
  static std::unique_ptr<DebugInfo> open(const Image& image, const Image* alternate,
                                         const Limits& limits);
  ~DebugInfo();
  DebugInfo(const DebugInfo&) = delete;
  DebugInfo& operator=(const DebugInfo&) = delete;

  const std::vector<Unit>& units() const { return units_; }
  const LineSections& line_sections() const { return line_sections_; }
  const Image& image() const { return image_; }
  const Limits& limits() const { return limits_; }
  Budget& budget() { return budget_; }

  // All of these return false, nothing or an empty text when the entry has no such thing, the data
  // is damaged or the budget is spent.
  bool entry_at(Dwarf_Off offset, Dwarf_Die& entry);
  bool child(Dwarf_Die& entry, Dwarf_Die& result);
  bool sibling(Dwarf_Die& entry, Dwarf_Die& result);  // always one at a higher offset
  bool unit_of(Dwarf_Die& entry, Dwarf_Die& unit);

  std::string_view text(Dwarf_Die& entry, unsigned attribute);  // at most kMaxNameBytes + 1 long
  std::optional<std::uint64_t> number(Dwarf_Die& entry, unsigned attribute);
  bool has(Dwarf_Die& entry, unsigned attribute);
  bool reference(Dwarf_Die& entry, unsigned attribute, Dwarf_Die& result);
  std::vector<AddressRange> code_ranges(Dwarf_Die& entry);
  std::optional<std::uint64_t> static_address(Dwarf_Die& entry);  // of a variable; none for TLS
  // Bytes from the start of a struct to a member; none where only the program can tell.
  std::optional<std::uint64_t> member_offset(Dwarf_Die& entry);
  // Where a variable is, stretch by stretch of code: expressions of at most kMaxOperations.
  std::vector<Location> locations(Dwarf_Die& entry, unsigned attribute);

  // The entry that declares this one (abstract origin, specification); false at the end.
  bool origin(Dwarf_Die& entry, Dwarf_Die& result);
  // The same attributes, also of the entries that this one stands for.
  std::string_view inherited_text(Dwarf_Die entry, unsigned attribute);
  bool inherited_reference(Dwarf_Die entry, unsigned attribute, Dwarf_Die& result);
  // The entry, among this one and those it stands for, that has the attribute.
  bool holder(Dwarf_Die entry, unsigned attribute, Dwarf_Die& result);

 private:
  DebugInfo(const Image& image, const Limits& limits, std::uint64_t work)
      : image_(image), limits_(limits), budget_(work) {}
  void read_units();
  bool abbreviations_are_sane(Dwarf_Off offset);
  std::optional<std::uint64_t> address_of_expression(Dwarf_Attribute& attribute);
  bool ends_inside(const char* text) const;

  const Image& image_;
  const Limits& limits_;
  Budget budget_;
  Dwarf* dwarf_ = nullptr;
  Dwarf* alternate_ = nullptr;
  LineSections line_sections_;
  std::vector<std::span<const std::uint8_t>> entry_sections_;
  std::span<const std::uint8_t> abbreviations_;
  std::unordered_map<Dwarf_Off, bool> sane_;
  std::vector<Unit> units_;
};

// Visits every entry below `root` in order, parents first.
//   bool visit(Dwarf_Die& entry, std::uint32_t from_parent, std::uint32_t& for_children)
// returns whether to go on to the entry's children, which get what it put into `for_children`.
template <typename Visit>
void for_each_entry(DebugInfo& info, Dwarf_Die root, std::uint32_t for_first, Visit visit) {
  struct Level {
    Dwarf_Die entry;
    std::uint32_t from_parent;
  };
  std::vector<Level> levels;
  Dwarf_Die next;
  if (!info.child(root, next)) return;
  levels.push_back({next, for_first});
  while (!levels.empty()) {
    Level& level = levels.back();
    std::uint32_t for_children = level.from_parent;
    bool descend = visit(level.entry, level.from_parent, for_children);
    if (descend && levels.size() < info.limits().entry_depth && info.child(level.entry, next)) {
      levels.push_back({next, for_children});
      continue;
    }
    while (!levels.empty() && !info.sibling(levels.back().entry, next)) levels.pop_back();
    if (!levels.empty()) levels.back().entry = next;
  }
}

}  // namespace stallscope::symbols
