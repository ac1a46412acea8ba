// SPDX-License-Identifier: Apache-2.0
// Where functions begin and end: from the symbol tables, and from the unwind tables (.eh_frame)
// that stripped programs keep. What neither covers is a gap.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "code/elf_image.h"

namespace stallscope::code {

struct Function {
  std::uint64_t start = 0;
  std::uint64_t end = 0;
  std::string_view name;  // empty when unknown; lives as long as the image
  bool gap = false;       // executable bytes that no table describes: may be padding or data
};

// Executable bytes of the image, sorted, without overlaps.
struct Region {
  std::uint64_t start = 0;
  Bytes bytes;
};
std::vector<Region> code_regions(const ElfImage& image);

// Sorted, without overlaps, covering all code regions. A function inside another belongs to it.
class Functions {
 public:
  explicit Functions(const ElfImage& image);
  std::size_t size() const { return all_.size(); }
  const Function& operator[](std::size_t i) const { return all_[i]; }
  Bytes bytes(std::size_t i) const;
  // The index of the function that holds an address, or size().
  std::size_t find(std::uint64_t address) const;

 private:
  void add_in_region(const Region& region, const std::vector<Function>& known, std::size_t& next);
  std::vector<Region> regions_;
  std::vector<Function> all_;
};

// The code ranges that the unwind tables describe; at most one per 8 bytes of the tables.
std::vector<Function> unwind_ranges(const ElfImage& image);

}  // namespace stallscope::code
