// SPDX-License-Identifier: Apache-2.0
// What a recorder must know of an executable before it starts it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"

namespace stallscope::code {

struct ElfFacts {
  int bits = 0;  // 32 or 64
  std::uint16_t machine = 0;
  std::string machine_name;         // of this e_machine, as people say it
  bool runs_here = false;           // 64-bit little-endian x86-64; the rest is filled only then
  bool program = false;             // of a type that the kernel starts
  bool is_static = false;           // no dynamic loader
  bool stripped = false;            // no symbol table
  std::string loader;               // of a dynamic program
  std::vector<std::string> needed;  // libraries by DT_NEEDED
  std::string library_path;         // DT_RUNPATH, else DT_RPATH
  std::string damage;               // why it cannot be loaded, when it cannot
};

// An Error when the file cannot be read or is no ELF file at all.
Result<ElfFacts> elf_facts(const std::string& path);

}  // namespace stallscope::code
