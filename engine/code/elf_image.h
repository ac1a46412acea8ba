// SPDX-License-Identifier: Apache-2.0
// A 64-bit little-endian ELF file, read with bounds on everything: offsets, counts and strings of a
// damaged or hostile file lead to an Error or to an empty answer, never outside the file.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace stallscope::code {

using Bytes = std::span<const std::uint8_t>;

struct Section {
  std::string_view name;
  std::uint32_t type = 0;
  std::uint64_t flags = 0;
  std::uint64_t address = 0;
  std::uint64_t offset = 0;
  std::uint64_t size = 0;
  std::uint32_t link = 0;
};

struct Segment {
  std::uint32_t type = 0;
  std::uint32_t flags = 0;
  std::uint64_t address = 0;
  std::uint64_t offset = 0;
  std::uint64_t file_size = 0;
  std::uint64_t memory_size = 0;
};

struct Symbol {
  std::string_view name;
  std::uint64_t address = 0;
  std::uint64_t size = 0;
  std::uint8_t type = 0;  // STT_*
  bool defined = false;   // lies in this file
  bool exported = false;  // from .dynsym: other modules may refer to it
};

struct Relocation {
  std::uint64_t at = 0;
  std::uint32_t type = 0;  // R_X86_64_*
  std::uint64_t addend = 0;
};

struct Dynamic {
  std::int64_t tag = 0;
  std::uint64_t value = 0;
};

// The string that starts at an offset of a string table; empty when the table does not hold it.
std::string_view string_at(Bytes table, std::uint64_t offset);

class ElfImage {
 public:
  // Copies what is needed of the file (headers, allocated sections, symbols; not debug sections),
  // so that a file cut short meanwhile cannot raise SIGBUS. Section headers are optional, as they
  // are for the kernel: a table that lies outside the file counts as absent.
  static Result<ElfImage> open(const std::string& path);
  static Result<ElfImage> from_bytes(std::vector<std::uint8_t> bytes);

  std::uint16_t type() const { return type_; }        // ET_*
  std::uint16_t machine() const { return machine_; }  // EM_*
  std::uint64_t entry() const { return entry_; }
  const std::vector<Segment>& segments() const { return segments_; }
  const std::vector<Section>& sections() const { return sections_; }
  const Section* section(std::string_view name) const;
  const Segment* segment(std::uint32_t type) const;

  Bytes contents(const Section& section) const;
  Bytes contents(const Segment& segment) const;
  // File contents from an address to the end of its load segment; empty when nothing is there.
  Bytes at(std::uint64_t address) const;
  bool writable(std::uint64_t address) const;  // in a load segment, zero-filled part included
  std::optional<std::uint64_t> word_at(std::uint64_t address) const;

  std::vector<Symbol> symbols() const;  // .symtab and .dynsym
  std::vector<Relocation> relocations() const;
  std::vector<Dynamic> dynamic() const;
  Bytes dynamic_strings() const;  // what DT_NEEDED and its like point into

  // Loading that a program's start needs would fail or read past the file's end: why, else empty.
  std::string damage() const;

 private:
  ElfImage() = default;
  static Result<ElfImage> parse(std::shared_ptr<const std::uint8_t> data, std::uint64_t size);
  Bytes range(std::uint64_t offset, std::uint64_t size) const;
  void read_segments();
  void read_sections();
  void add_symbols(const Section& table, bool exported, std::vector<Symbol>& out) const;
  void add_relocations(Bytes table, std::vector<Relocation>& out) const;

  std::shared_ptr<const std::uint8_t> data_;
  std::uint64_t size_ = 0;
  std::uint16_t type_ = 0;
  std::uint16_t machine_ = 0;
  std::uint64_t entry_ = 0;
  bool segments_cut_ = false;
  std::vector<Segment> segments_;
  std::vector<Section> sections_;
};

}  // namespace stallscope::code
