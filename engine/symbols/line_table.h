// SPDX-License-Identifier: Apache-2.0
// The line table of one unit (DWARF 2 to 5). Read here and not by libdw, because libdw keeps
// several times the memory per row, without a bound, even when only the file names are wanted.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "symbols/byte_reader.h"
#include "symbols/limits.h"

namespace stallscope::symbols {

struct LineSections {
  std::span<const std::uint8_t> line;
  std::span<const std::uint8_t> line_str;
  std::span<const std::uint8_t> str;
};

struct LineRow {
  std::uint64_t address;
  std::uint32_t line;  // 0: none
  std::uint32_t file;  // as numbered by the unit; kEndOfSequence where the code ends
};

inline constexpr std::uint32_t kEndOfSequence = 0xFFFF'FFFF;

class LineTable {
 public:
  using IsCode = std::function<bool(std::uint64_t address)>;

  // Reads only the header, so that file_path works. `directory` is the unit's compilation
  // directory. False when the table is damaged.
  bool read_header(const LineSections& sections, std::uint64_t offset, std::string_view directory,
                   Budget& budget);
  // After read_header: the rows. Sequences that do not start in code (those of functions that the
  // linker threw away) are left out. `rows_left` counts down; damage keeps the rows before it.
  void read_rows(const IsCode& is_code, std::uint32_t& rows_left, Budget& budget);

  // Row in force at the address, or null.
  const LineRow* find(std::uint64_t address) const;
  // Path of a file by the unit's number; empty when it has no such file.
  std::string file_path(std::uint64_t file) const;

 private:
  struct File {
    const char* name;
    std::uint64_t directory;
  };
  struct EntryFormat {
    std::uint64_t content;
    std::uint64_t form;
  };
  struct Machine;

  bool read_prologue(ByteReader& reader, std::string_view directory, Budget& budget);
  bool read_old_names(ByteReader& header, Budget& budget);
  bool read_new_names(ByteReader& header, Budget& budget);
  bool read_entries(ByteReader& header, bool are_files, Budget& budget);
  bool read_field(ByteReader& header, const EntryFormat& format, File& entry) const;
  void run_extended(Machine& machine, ByteReader& program);
  bool run_standard(Machine& machine, ByteReader& program, std::uint8_t opcode);
  void emit(Machine& machine, bool ends);
  void order_sequences();

  LineSections sections_;
  ByteReader program_;
  unsigned version_ = 0;
  unsigned offset_size_ = 4;
  unsigned address_size_ = 8;
  unsigned minimum_length_ = 1;
  unsigned line_range_ = 1;
  int line_base_ = 0;
  unsigned opcode_base_ = 1;
  std::vector<std::uint8_t> operand_counts_;
  std::vector<const char*> directories_;
  std::string compilation_directory_;
  std::vector<File> files_;

  struct Sequence {
    std::uint64_t low;
    std::uint32_t first;  // row
    std::uint32_t rows;
  };
  std::vector<Sequence> sequences_;
  std::vector<LineRow> rows_;
};

}  // namespace stallscope::symbols
