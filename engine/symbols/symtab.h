// SPDX-License-Identifier: Apache-2.0
// The symbols of .symtab and .dynsym: functions by address, data objects.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "symbols/image.h"
#include "symbols/interval_map.h"

namespace stallscope::symbols {

struct Symbol {
  std::uint64_t address;
  std::uint64_t size;
  const char* name;    // with its version ("stdout@GLIBC_2.2.5"); owned by the image
  std::uint8_t order;  // lower ones are preferred as the name of an address
  bool is_global() const { return order < 16; }
  bool operator==(const Symbol&) const = default;
};

struct CodeRange {
  std::uint64_t begin = 0, end = 0;
  bool contains(std::uint64_t address) const { return begin <= address && address < end; }
};

// The name without symbol version.
std::string plain_name(const Symbol& symbol);

// Not thread-safe. The images must outlive it.
class SymbolTable {
 public:
  // `debug` may be null. Its symbols and the image's own are taken together.
  SymbolTable(const Image& image, const Image* debug, const Limits& limits);

  // The function symbol that covers the address, or null.
  const Symbol* function_at(std::uint64_t address) const;
  // The data symbol that starts at the address, or null.
  const Symbol* object_at(std::uint64_t address) const;
  // One symbol for each address, sorted by address; sizes are not 0.
  const std::vector<Symbol>& objects() const { return objects_; }
  // The code that hands out memory: malloc, its family, and what lies among them up to the global
  // functions beside, because libraries compile it from one file. Empty where there is no malloc.
  CodeRange allocator() const;
  bool cut_short() const { return cut_short_; }

 private:
  void read(const Image& image, const Limits& limits);
  void read_section(const Image& image, Elf_Scn* section, const Limits& limits);
  void index_functions(const Image& image);

  std::vector<Symbol> functions_;
  std::vector<Symbol> objects_;
  IntervalMap index_;
  bool cut_short_ = false;
};

}  // namespace stallscope::symbols
