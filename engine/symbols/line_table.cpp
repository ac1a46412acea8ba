// SPDX-License-Identifier: Apache-2.0
#include "symbols/line_table.h"

#include <dwarf.h>

#include <algorithm>

namespace stallscope::symbols {
namespace {

constexpr std::uint64_t kMaxNames = 1'000'000;  // files or directories of one unit

const char* text_at(std::span<const std::uint8_t> section, std::uint64_t offset) {
  if (offset >= section.size()) return "";
  return ByteReader(section.subspan(static_cast<std::size_t>(offset))).text();
}

std::string join(std::string_view directory, std::string_view name) {
  if (directory.empty() || name.starts_with('/')) return std::string(name);
  if (name.empty()) return std::string(directory);
  std::string path(directory);
  if (!path.ends_with('/')) path += '/';
  return path += name;
}

}  // namespace

bool LineTable::read_header(const LineSections& sections, std::uint64_t offset,
                            std::string_view directory, Budget& budget) {
  sections_ = sections;
  if (offset >= sections.line.size()) return false;
  ByteReader reader(sections.line.subspan(static_cast<std::size_t>(offset)));
  std::uint64_t length = reader.u32();
  offset_size_ = length == 0xFFFF'FFFF ? 8 : 4;
  if (offset_size_ == 8) length = reader.number(8);
  // A table cut short by the end of the file is read as far as it goes.
  ByteReader table = reader.part(std::min<std::uint64_t>(length, reader.left()));
  version_ = table.u16();
  if (table.failed() || version_ < 2 || version_ > 5) return false;
  if (version_ >= 5) {
    address_size_ = table.u8();
    table.skip(1);  // segment selector size
  }
  return read_prologue(table, directory, budget);
}

bool LineTable::read_prologue(ByteReader& table, std::string_view directory, Budget& budget) {
  std::uint64_t header_length = table.number(offset_size_);
  ByteReader header = table.part(header_length);
  program_ = table;
  program_ = program_.part(table.left());
  minimum_length_ = header.u8();
  if (version_ >= 4) header.skip(1);  // operations per instruction: 1 on every machine we know
  header.skip(1);                     // default_is_stmt
  line_base_ = static_cast<std::int8_t>(header.u8());
  line_range_ = header.u8();
  opcode_base_ = header.u8();
  if (table.failed() || header.failed() || line_range_ == 0 || opcode_base_ == 0) return false;
  for (unsigned i = 1; i < opcode_base_; ++i) operand_counts_.push_back(header.u8());
  compilation_directory_ = directory;
  if (header.failed()) return false;
  return version_ >= 5 ? read_new_names(header, budget) : read_old_names(header, budget);
}

bool LineTable::read_old_names(ByteReader& header, Budget& budget) {
  directories_.push_back("");  // 0 is the compilation directory
  while (!header.at_end()) {
    const char* name = header.text();
    if (*name == 0) break;
    if (directories_.size() >= kMaxNames || !budget.spend(1)) return false;
    directories_.push_back(name);
  }
  files_.push_back({"", 0});  // files count from 1
  while (!header.at_end()) {
    File file{header.text(), 0};
    if (*file.name == 0) break;
    file.directory = header.uleb();
    header.uleb();  // time
    header.uleb();  // size
    if (files_.size() >= kMaxNames || !budget.spend(1)) return false;
    files_.push_back(file);
  }
  return !header.failed();
}

bool LineTable::read_new_names(ByteReader& header, Budget& budget) {
  return read_entries(header, false, budget) && read_entries(header, true, budget);
}

bool LineTable::read_entries(ByteReader& header, bool are_files, Budget& budget) {
  std::vector<EntryFormat> formats(header.u8());
  for (EntryFormat& format : formats) format = {header.uleb(), header.uleb()};
  std::uint64_t count = header.uleb();
  // An entry takes at least a byte, so a count beyond what is left is damage.
  if (header.failed() || count > header.left() || count > kMaxNames) return false;
  if (formats.empty() && count > 0) return false;
  for (std::uint64_t i = 0; i < count; ++i) {
    if (!budget.spend(1 + formats.size())) return false;
    File entry{"", 0};
    for (const EntryFormat& format : formats) {
      if (!read_field(header, format, entry)) return false;
    }
    if (are_files) {
      files_.push_back(entry);
    } else {
      directories_.push_back(entry.name);
    }
  }
  return true;
}

bool LineTable::read_field(ByteReader& header, const EntryFormat& format, File& entry) const {
  const char* text = "";
  std::uint64_t number = 0;
  switch (format.form) {
    case DW_FORM_string:
      text = header.text();
      break;
    case DW_FORM_line_strp:
      text = text_at(sections_.line_str, header.number(offset_size_));
      break;
    case DW_FORM_strp:
      text = text_at(sections_.str, header.number(offset_size_));
      break;
    case DW_FORM_strp_sup:
    case DW_FORM_GNU_strp_alt:
      header.skip(offset_size_);
      break;
    case DW_FORM_udata:
    case DW_FORM_strx:
      number = header.uleb();
      break;
    case DW_FORM_data1:
    case DW_FORM_strx1:
      number = header.u8();
      break;
    case DW_FORM_data2:
    case DW_FORM_strx2:
      number = header.u16();
      break;
    case DW_FORM_strx3:
      number = header.number(3);
      break;
    case DW_FORM_data4:
    case DW_FORM_strx4:
      number = header.u32();
      break;
    case DW_FORM_data8:
      number = header.number(8);
      break;
    case DW_FORM_data16:
      header.skip(16);
      break;
    case DW_FORM_block:
      header.skip(header.uleb());
      break;
    default:
      return false;
  }
  if (format.content == DW_LNCT_path) entry.name = text;
  if (format.content == DW_LNCT_directory_index) entry.directory = number;
  return !header.failed();
}

struct LineTable::Machine {
  std::uint64_t address = 0;
  std::uint64_t file = 1;
  std::uint64_t line = 1;
  std::size_t first_row = 0;  // of the sequence
  bool full = false;
  std::uint32_t* rows_left = nullptr;
  const IsCode* is_code = nullptr;

  void restart(std::size_t row) {
    address = 0;
    file = 1;
    line = 1;
    first_row = row;
  }
};

void LineTable::emit(Machine& machine, bool ends) {
  LineRow row{machine.address, 0, kEndOfSequence};
  if (!ends) {
    if (machine.line <= INT32_MAX) row.line = static_cast<std::uint32_t>(machine.line);
    row.file = static_cast<std::uint32_t>(std::min<std::uint64_t>(machine.file, kMaxNames));
  }
  if (rows_.size() > machine.first_row) {
    LineRow& last = rows_.back();
    if (last.address == row.address) {  // the last of several rows is the one in force
      last = row;
      return;
    }
    if (last.line == row.line && last.file == row.file) return;
  }
  if (*machine.rows_left == 0) {
    machine.full = true;
    return;
  }
  --*machine.rows_left;
  rows_.push_back(row);
}

void LineTable::run_extended(Machine& machine, ByteReader& program) {
  std::uint64_t length = program.uleb();
  ByteReader operands = program.part(length);
  switch (operands.u8()) {
    case DW_LNE_end_sequence: {
      emit(machine, true);
      std::size_t first = machine.first_row;
      bool keep = rows_.size() > first + 1 && (*machine.is_code)(rows_[first].address);
      if (keep) {
        sequences_.push_back({rows_[first].address, static_cast<std::uint32_t>(first),
                              static_cast<std::uint32_t>(rows_.size() - first)});
      } else {
        rows_.resize(std::min(first, rows_.size()));
      }
      machine.restart(rows_.size());
      break;
    }
    case DW_LNE_set_address: {
      std::size_t size = operands.left();
      machine.address = size >= 1 && size <= 8 ? operands.number(static_cast<unsigned>(size)) : 0;
      break;
    }
    default:
      break;
  }
}

// False when the opcode is no standard one that moves address, line or file.
bool LineTable::run_standard(Machine& machine, ByteReader& program, std::uint8_t opcode) {
  switch (opcode) {
    case DW_LNS_copy:
      emit(machine, false);
      return true;
    case DW_LNS_advance_pc:
      machine.address += program.uleb() * minimum_length_;
      return true;
    case DW_LNS_advance_line:
      machine.line += static_cast<std::uint64_t>(program.sleb());
      return true;
    case DW_LNS_set_file:
      machine.file = program.uleb();
      return true;
    case DW_LNS_const_add_pc:
      machine.address += (255 - opcode_base_) / line_range_ * minimum_length_;
      return true;
    case DW_LNS_fixed_advance_pc:
      machine.address += program.u16();
      return true;
    default:
      return false;
  }
}

void LineTable::read_rows(const IsCode& is_code, std::uint32_t& rows_left, Budget& budget) {
  Machine machine;
  machine.rows_left = &rows_left;
  machine.is_code = &is_code;
  ByteReader program = program_;
  if (!budget.spend(program.left())) return;
  while (!program.at_end() && !machine.full) {
    std::uint8_t opcode = program.u8();
    if (opcode >= opcode_base_) {
      unsigned special = opcode - opcode_base_;
      machine.address += special / line_range_ * minimum_length_;
      machine.line += static_cast<std::uint64_t>(static_cast<std::int64_t>(line_base_) +
                                                 static_cast<std::int64_t>(special % line_range_));
      emit(machine, false);
    } else if (opcode == 0) {
      run_extended(machine, program);
    } else if (!run_standard(machine, program, opcode)) {
      for (unsigned i = 0; i < operand_counts_[opcode - 1]; ++i) program.uleb();
    }
  }
  rows_.resize(std::min(machine.first_row, rows_.size()));  // a sequence without an end
  rows_.shrink_to_fit();
  order_sequences();
}

void LineTable::order_sequences() {
  auto earlier = [](const LineRow& a, const LineRow& b) { return a.address < b.address; };
  for (Sequence& sequence : sequences_) {
    auto first = rows_.begin() + sequence.first;
    auto last = first + sequence.rows;
    if (!std::is_sorted(first, last, earlier)) std::stable_sort(first, last, earlier);
    sequence.low = first->address;
  }
  std::sort(sequences_.begin(), sequences_.end(), [](const Sequence& a, const Sequence& b) {
    return a.low != b.low ? a.low < b.low : a.first < b.first;
  });
}

const LineRow* LineTable::find(std::uint64_t address) const {
  auto after =
      std::upper_bound(sequences_.begin(), sequences_.end(), address,
                       [](std::uint64_t value, const Sequence& s) { return value < s.low; });
  if (after == sequences_.begin()) return nullptr;
  const Sequence& sequence = *--after;
  auto first = rows_.begin() + sequence.first;
  auto row =
      std::upper_bound(first, first + sequence.rows, address,
                       [](std::uint64_t value, const LineRow& r) { return value < r.address; });
  --row;  // the first row lies at sequence.low, which is not above the address
  return row->file == kEndOfSequence ? nullptr : &*row;
}

std::string LineTable::file_path(std::uint64_t file) const {
  if (file >= files_.size() || *files_[file].name == 0) return {};
  const File& entry = files_[file];
  // Until DWARF 4 directory 0 is not in the table; since DWARF 5 it is, and is the unit's own.
  std::string base = compilation_directory_;
  if (version_ >= 5 && !directories_.empty() && base != directories_[0]) {
    base = join(base, directories_[0]);
  }
  std::string_view directory;
  if (entry.directory > 0 && entry.directory < directories_.size()) {
    directory = directories_[entry.directory];
  }
  return join(join(base, directory), entry.name);
}

}  // namespace stallscope::symbols
