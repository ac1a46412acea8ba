// SPDX-License-Identifier: Apache-2.0
#include "symbols/debug_info.h"

#include <dwarf.h>

#include <algorithm>
#include <cstring>

#include "symbols/string_table.h"

namespace stallscope::symbols {
namespace {

constexpr int kMaxOrigins = 8;        // hops from a concrete entry to its declaration
constexpr unsigned kMaxFields = 100;  // attributes of one abbreviation; compilers use up to 30
constexpr std::size_t kMaxOperations = 32;  // of a variable's place; those of interest have few
constexpr std::uint64_t kWorkPerByte = 200;
constexpr std::uint64_t kWorkAtLeast = 2'000'000;

std::uint64_t work_for(const Image& image, const Limits& limits) {
  std::uint64_t bytes = 0;
  for (const char* name : {".debug_info", ".debug_line", ".debug_abbrev"}) {
    bytes += image.section(name).size();
  }
  return std::min(limits.work, kWorkAtLeast + bytes * kWorkPerByte);
}

// Without a name that ends, libdw finds no supplementary file to open by itself.
void hide_alternate_link(const Image& image) {
  auto link = image.section(".gnu_debugaltlink");
  std::fill(link.begin(), link.end(), std::uint8_t{'x'});
}

}  // namespace

std::unique_ptr<DebugInfo> DebugInfo::open(const Image& image, const Image* alternate,
                                           const Limits& limits) {
  const Facts& facts = image.facts();
  // Objects before linking would need their relocations applied.
  bool is_linked = facts.type == ET_EXEC || facts.type == ET_DYN;
  if (!facts.has_dwarf || !facts.little_endian || !is_linked) return nullptr;
  if (!image.decompresses_within(limits.decompressed_bytes)) return nullptr;
  std::unique_ptr<DebugInfo> info(new DebugInfo(image, limits, work_for(image, limits)));
  hide_alternate_link(image);
  info->dwarf_ = dwarf_begin_elf(image.elf(), DWARF_C_READ, nullptr);
  if (info->dwarf_ == nullptr) return nullptr;
  info->entry_sections_ = {image.section(".debug_info"), image.section(".debug_types")};
  if (alternate != nullptr && alternate->decompresses_within(limits.decompressed_bytes)) {
    hide_alternate_link(*alternate);
    info->alternate_ = dwarf_begin_elf(alternate->elf(), DWARF_C_READ, nullptr);
    if (info->alternate_ != nullptr) dwarf_setalt(info->dwarf_, info->alternate_);
    info->entry_sections_.push_back(alternate->section(".debug_info"));
  }
  info->abbreviations_ = image.section(".debug_abbrev");
  info->line_sections_ = {image.section(".debug_line"), image.section(".debug_line_str"),
                          image.section(".debug_str")};
  info->read_units();
  return info;
}

DebugInfo::~DebugInfo() {
  if (dwarf_ != nullptr) dwarf_end(dwarf_);
  if (alternate_ != nullptr) dwarf_end(alternate_);
}

void DebugInfo::read_units() {
  Dwarf_Off offset = 0;
  Dwarf_Off next = 0;
  std::size_t header_size = 0;
  Dwarf_Half version = 0;
  Dwarf_Off abbreviations = 0;
  std::uint8_t address_size = 0;
  std::uint8_t offset_size = 0;
  std::uint32_t seen = 0;
  while (seen++ < limits_.units && budget_.spend(1) &&
         dwarf_next_unit(dwarf_, offset, &next, &header_size, &version, &abbreviations,
                         &address_size, &offset_size, nullptr, nullptr) == 0) {
    Dwarf_Off entry_offset = offset + header_size;
    if (next <= offset || entry_offset >= next) break;
    offset = next;
    Dwarf_Die entry;
    if (!abbreviations_are_sane(abbreviations)) return units_.clear();
    if (!entry_at(entry_offset, entry)) continue;
    // A skeleton unit has lines and ranges; its functions lie in a file that is not followed.
    int tag = dwarf_tag(&entry);
    if (tag == DW_TAG_compile_unit || tag == DW_TAG_skeleton_unit)
      units_.push_back({entry_offset, next - entry_offset});
  }
}

// libdw steps over an entry in time proportional to its fields, also those that take no bytes, so
// a few bytes of abbreviation could cost hours. One that is out of proportion condemns the whole
// file, because entries of other units could refer to it.
bool DebugInfo::abbreviations_are_sane(Dwarf_Off offset) {
  if (auto known = sane_.find(offset); known != sane_.end()) return known->second;
  bool& sane = sane_[offset];
  if (offset >= abbreviations_.size()) return sane = false;
  ByteReader reader(abbreviations_.subspan(offset));
  while (!reader.failed() && reader.uleb() != 0) {
    reader.uleb();   // tag
    reader.skip(1);  // whether it has children
    unsigned fields = 0;
    for (;;) {
      std::uint64_t name = reader.uleb();
      std::uint64_t form = reader.uleb();
      if (form == DW_FORM_implicit_const) reader.sleb();
      if (reader.failed() || (name == 0 && form == 0)) break;
      if (++fields > kMaxFields) return sane = false;
    }
    if (!budget_.spend(1 + fields)) return sane = false;
  }
  return sane = !reader.failed();
}

bool DebugInfo::entry_at(Dwarf_Off offset, Dwarf_Die& entry) {
  return budget_.spend(1) && dwarf_offdie(dwarf_, offset, &entry) != nullptr;
}

bool DebugInfo::child(Dwarf_Die& entry, Dwarf_Die& result) {
  return budget_.spend(1) && dwarf_child(&entry, &result) == 0;
}

bool DebugInfo::sibling(Dwarf_Die& entry, Dwarf_Die& result) {
  if (!budget_.spend(1) || dwarf_siblingof(&entry, &result) != 0) return false;
  // The addresses lie in one section; libdw follows a sibling reference wherever it points.
  auto from = reinterpret_cast<std::uintptr_t>(entry.addr);
  auto to = reinterpret_cast<std::uintptr_t>(result.addr);
  return to > from && budget_.spend(to - from);
}

bool DebugInfo::unit_of(Dwarf_Die& entry, Dwarf_Die& unit) {
  return dwarf_diecu(&entry, &unit, nullptr, nullptr) != nullptr;
}

bool DebugInfo::ends_inside(const char* text) const {
  auto* start = reinterpret_cast<const std::uint8_t*>(text);
  for (auto section : entry_sections_) {
    if (section.empty() || start < section.data() || start >= section.data() + section.size()) {
      continue;
    }
    auto left = static_cast<std::size_t>(section.data() + section.size() - start);
    return std::memchr(start, 0, std::min(left, kMaxNameBytes + 1)) != nullptr ||
           left > kMaxNameBytes;
  }
  return false;
}

std::string_view DebugInfo::text(Dwarf_Die& entry, unsigned attribute) {
  Dwarf_Attribute found;
  if (!budget_.spend(1) || dwarf_attr(&entry, attribute, &found) == nullptr) return {};
  const char* text = dwarf_formstring(&found);
  if (text == nullptr) return {};
  if (dwarf_whatform(&found) == DW_FORM_string && !ends_inside(text)) return {};
  return {text, strnlen(text, kMaxNameBytes + 1)};
}

std::optional<std::uint64_t> DebugInfo::number(Dwarf_Die& entry, unsigned attribute) {
  Dwarf_Attribute found;
  Dwarf_Word value = 0;
  if (!budget_.spend(1) || dwarf_attr(&entry, attribute, &found) == nullptr) return {};
  if (dwarf_formudata(&found, &value) != 0) return {};
  return value;
}

bool DebugInfo::has(Dwarf_Die& entry, unsigned attribute) {
  return budget_.spend(1) && dwarf_hasattr(&entry, attribute) != 0;
}

bool DebugInfo::reference(Dwarf_Die& entry, unsigned attribute, Dwarf_Die& result) {
  Dwarf_Attribute found;
  return budget_.spend(1) && dwarf_attr(&entry, attribute, &found) != nullptr &&
         dwarf_formref_die(&found, &result) != nullptr;
}

std::vector<AddressRange> DebugInfo::code_ranges(Dwarf_Die& entry) {
  std::vector<AddressRange> ranges;
  if (!has(entry, DW_AT_low_pc) && !has(entry, DW_AT_ranges)) return ranges;
  Dwarf_Addr base = 0;
  Dwarf_Addr low = 0;
  Dwarf_Addr high = 0;
  std::ptrdiff_t at = 0;
  while (budget_.spend(1) && (at = dwarf_ranges(&entry, at, &base, &low, &high)) > 0) {
    // Code that the linker threw away is left at address 0 or at the top of the address space.
    if (low < high && image_.is_code(low)) ranges.push_back({low, high});
  }
  return ranges;
}

std::optional<std::uint64_t> DebugInfo::static_address(Dwarf_Die& entry) {
  Dwarf_Attribute location;
  if (!budget_.spend(1) || dwarf_attr(&entry, DW_AT_location, &location) == nullptr) return {};
  switch (dwarf_whatform(&location)) {
    case DW_FORM_exprloc:
    case DW_FORM_block1:
    case DW_FORM_block2:
    case DW_FORM_block4:
    case DW_FORM_block:
      return address_of_expression(location);
    default:
      return {};  // a list: it moves, so it lies in registers or on the stack
  }
}

// An address, alone or with a constant added. Anything else is computed at run time.
std::optional<std::uint64_t> DebugInfo::address_of_expression(Dwarf_Attribute& location) {
  Dwarf_Block block;
  if (dwarf_formblock(&location, &block) != 0 || block.length < 2) return {};
  std::uint64_t address = 0;
  ByteReader reader(std::span<const std::uint8_t>(block.data, block.length));
  switch (reader.u8()) {
    case DW_OP_addr:
      address = reader.number(image_.facts().bits / 8);
      break;
    case DW_OP_addrx:
    case DW_OP_GNU_addr_index: {
      Dwarf_Op* operations = nullptr;
      std::size_t count = 0;
      Dwarf_Attribute indexed;
      if (block.length > 16 || dwarf_getlocation(&location, &operations, &count) != 0 ||
          count < 1 || dwarf_getlocation_attr(&location, operations, &indexed) != 0 ||
          dwarf_formaddr(&indexed, &address) != 0) {
        return {};
      }
      reader.uleb();
      break;
    }
    default:
      return {};
  }
  if (!reader.at_end()) {
    if (reader.u8() != DW_OP_plus_uconst) return {};
    address += reader.uleb();
  }
  if (reader.failed() || !reader.at_end()) return {};
  return address;
}

std::optional<std::uint64_t> DebugInfo::member_offset(Dwarf_Die& entry) {
  Dwarf_Attribute found;
  if (!budget_.spend(1) || dwarf_attr(&entry, DW_AT_data_member_location, &found) == nullptr) {
    return 0;
  }
  Dwarf_Word value = 0;
  if (dwarf_formudata(&found, &value) == 0) return value;
  Dwarf_Block block;
  if (dwarf_formblock(&found, &block) != 0 || block.length < 2) return {};
  ByteReader reader(std::span<const std::uint8_t>(block.data, block.length));
  if (reader.u8() != DW_OP_plus_uconst) return {};
  value = reader.uleb();
  if (reader.failed() || !reader.at_end()) return {};
  return value;
}

std::vector<Location> DebugInfo::locations(Dwarf_Die& entry, unsigned attribute) {
  std::vector<Location> found;
  Dwarf_Attribute location;
  if (!budget_.spend(1) || dwarf_attr(&entry, attribute, &location) == nullptr) return found;
  Dwarf_Addr base = 0;
  Dwarf_Addr low = 0;
  Dwarf_Addr high = 0;
  Dwarf_Op* operations = nullptr;
  std::size_t count = 0;
  std::ptrdiff_t at = 0;
  while (budget_.spend(1) &&
         (at = dwarf_getlocations(&location, at, &base, &low, &high, &operations, &count)) > 0) {
    if (!budget_.spend(count) || found.size() >= limits_.locals) break;
    if (count == 0 || count > kMaxOperations || low >= high) continue;
    found.push_back({low, high, {operations, operations + count}});
  }
  return found;
}

bool DebugInfo::origin(Dwarf_Die& entry, Dwarf_Die& result) {
  return reference(entry, DW_AT_abstract_origin, result) ||
         reference(entry, DW_AT_specification, result);
}

bool DebugInfo::holder(Dwarf_Die entry, unsigned attribute, Dwarf_Die& result) {
  for (int hop = 0; hop < kMaxOrigins; ++hop) {
    if (has(entry, attribute)) {
      result = entry;
      return true;
    }
    Dwarf_Die next;
    if (!origin(entry, next)) return false;
    entry = next;
  }
  return false;
}

std::string_view DebugInfo::inherited_text(Dwarf_Die entry, unsigned attribute) {
  Dwarf_Die found;
  return holder(entry, attribute, found) ? text(found, attribute) : std::string_view();
}

bool DebugInfo::inherited_reference(Dwarf_Die entry, unsigned attribute, Dwarf_Die& result) {
  Dwarf_Die found;
  return holder(entry, attribute, found) && reference(found, attribute, result);
}

}  // namespace stallscope::symbols
