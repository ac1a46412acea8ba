// SPDX-License-Identifier: Apache-2.0
// Who refers to whom in a program's code: calls, jumps, addresses taken, pointers in data; and
// which functions ask the processor what it is. One linear pass over all functions. Not seen:
// addresses that are computed, and pointers that another module stores.
#pragma once

#include <cstdint>
#include <vector>

#include "code/decode.h"
#include "code/elf_image.h"
#include "code/functions.h"

namespace stallscope::code {

// What an eight-byte word of the loaded program holds, relocations applied.
class Pointers {
 public:
  explicit Pointers(const ElfImage& image);
  std::optional<std::uint64_t> at(std::uint64_t address) const;
  const std::vector<Relocation>& relative() const { return relative_; }

 private:
  const ElfImage* image_;
  std::vector<Relocation> relative_;  // sorted by place
};

// The addresses that an instruction names: branch targets, lea, immediates of a fixed-address
// program, and pointers that it loads. At most one per operand.
std::vector<std::uint64_t> named_addresses(const Instruction& instruction, bool fixed_addresses,
                                           const Pointers& pointers);

struct Edge {
  std::uint32_t from = 0;
  std::uint32_t to = 0;
};

struct DataUse {
  std::uint32_t function = 0;
  bool stores = false;  // writes it, or takes its address
  std::uint64_t address = 0;
};

struct References {
  std::vector<Edge> edges;             // between different functions, sorted by `from`
  std::vector<DataUse> data;           // of writable memory at fixed places
  std::vector<std::uint8_t> asks_cpu;  // per function: contains cpuid or xgetbv
  std::vector<std::uint8_t> in_table;  // per function: a word of data points into it
  std::vector<std::uint8_t>
      started;                // per function: entry point, constructor, or exported by a library
  std::uint64_t decoded = 0;  // instructions
  bool complete = true;       // false: the limit on instructions was reached
};

References find_references(const ElfImage& image, const Functions& functions,
                           const Pointers& pointers, std::uint64_t most_instructions);

// The functions (by index, sorted) that indirect-function resolvers can return. The loader calls a
// resolver once to choose a variant by the processor's features.
std::vector<std::size_t> resolver_targets(const ElfImage& image, const Functions& functions,
                                          const Pointers& pointers);

}  // namespace stallscope::code
