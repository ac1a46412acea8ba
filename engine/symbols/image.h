// SPDX-License-Identifier: Apache-2.0
// One ELF file in memory and what its headers say. Owns the bytes and the libelf handle.
#pragma once

#include <libelf.h>

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "symbols/limits.h"

namespace stallscope::symbols {

struct Segment {  // a PT_LOAD
  std::uint64_t address;
  std::uint64_t offset;
  std::uint64_t file_size;
  std::uint64_t memory_size;
  bool executable;
  bool writable;
};

struct Facts {
  std::string build_id;       // bytes; empty when there is none
  std::uint16_t machine = 0;  // e_machine
  std::uint16_t type = 0;     // ET_EXEC, ET_DYN, …
  int bits = 0;               // 32 or 64
  bool little_endian = true;
  bool has_symtab = false;  // not stripped
  bool has_dwarf = false;   // .debug_info with contents
  std::string interpreter;  // PT_INTERP; empty for static programs and libraries
  std::string debug_link;   // file name in .gnu_debuglink
  std::uint32_t debug_link_crc = 0;
  std::vector<Segment> segments;
};

// Bytes of a section, and where the loader puts them.
struct LoadedBytes {
  std::span<const std::uint8_t> bytes;
  std::uint64_t address = 0;
};

// The bytes of a file. Up to Limits::resident_bytes they are read, so that a file that shrinks
// meanwhile does no harm; beyond that they are mapped, and cutting the file short while it is
// open ends the process with SIGBUS.
class FileBytes {
 public:
  static Result<FileBytes> read(const std::string& path, const Limits& limits);
  static FileBytes copy(std::span<const std::uint8_t> bytes);
  FileBytes(FileBytes&& other) noexcept;
  FileBytes& operator=(FileBytes&&) = delete;
  ~FileBytes();

  std::span<std::uint8_t> span() const { return {data_, size_}; }

 private:
  FileBytes(std::uint8_t* data, std::size_t size, bool mapped)
      : data_(data), size_(size), mapped_(mapped) {}
  std::uint8_t* data_;
  std::size_t size_;
  bool mapped_;
};

class Image {
 public:
  static Result<std::unique_ptr<Image>> open(const std::string& path, const Limits& limits);
  // For tests and fuzzing: the file's bytes. `name` stands in for the path in messages.
  static Result<std::unique_ptr<Image>> from_bytes(std::span<const std::uint8_t> bytes,
                                                   const std::string& name, const Limits& limits);
  ~Image();
  Image(const Image&) = delete;
  Image& operator=(const Image&) = delete;

  const std::string& path() const { return path_; }
  const Facts& facts() const { return facts_; }
  Elf* elf() const { return elf_; }
  std::span<const std::uint8_t> bytes() const { return bytes_.span(); }

  // Bytes of the section with this name, decompressed; empty when there is none or it is damaged.
  // Valid while the image lives. Changing them changes what libdw reads.
  std::span<std::uint8_t> section(std::string_view name) const;
  LoadedBytes loaded_section(std::string_view name) const;

  // Whether all compressed sections together stay within the limit.
  bool decompresses_within(std::uint64_t limit) const;

  // Whether the address lies in a section that the loader maps, or in code that it maps (always,
  // for files without sections or segments).
  bool is_loaded(std::uint64_t address) const;
  bool is_code(std::uint64_t address) const;

 private:
  Image(FileBytes bytes, std::string path) : bytes_(std::move(bytes)), path_(std::move(path)) {}
  static Result<std::unique_ptr<Image>> make(FileBytes bytes, const std::string& path,
                                             const Limits& limits);
  void read_segments(const Limits& limits);
  void read_sections(const Limits& limits);
  void read_debug_link(Elf_Scn* section);
  void order_loaded();

  struct Section {
    std::string name;
    Elf_Scn* handle;
  };
  FileBytes bytes_;
  std::string path_;
  Elf* elf_ = nullptr;
  Facts facts_;
  std::vector<Section> sections_;
  struct Range {
    std::uint64_t low;
    std::uint64_t high;
  };
  std::vector<Range> loaded_;  // by address, disjoint
};

}  // namespace stallscope::symbols
