// SPDX-License-Identifier: Apache-2.0
// The target's address space: mappings as they come, move and go, and the modules they make up.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "stallscope_tables.h"

namespace stallscope::target {

struct Mapping {
  std::uint64_t start = 0;
  std::uint64_t end = 0;
  std::uint64_t offset = 0;  // in the file
  std::uint64_t born = 0;
  std::uint32_t access = 0;  // 1 read, 2 write, 4 execute
  std::uint32_t thread = 0;
  std::uint32_t module = kNone32;
  std::string path;  // empty when anonymous
};

// One file that was mapped with executable parts. Its bias is known once the file was read.
struct Module {
  std::string path;
  std::uint64_t start = 0;
  std::uint64_t end = 0;
  std::uint64_t code_start = 0;   // an executable mapping of it …
  std::uint64_t code_offset = 0;  // … and that mapping's offset in the file
  bool has_code = false;
  std::uint64_t loaded = 0;
  std::uint64_t unloaded = kNever;
};

class Mappings {
 public:
  // A new mapping replaces whatever it covers. Replaced and unmapped ones go to `gone`.
  void map(Mapping mapping, ObjectTable& gone);
  void unmap(std::uint64_t start, std::uint64_t length, std::uint64_t when, ObjectTable& gone);
  void remap(std::uint64_t from, std::uint64_t to, std::uint64_t length, std::uint64_t when,
             ObjectTable& gone);
  void move_break(std::uint64_t old_end, std::uint64_t new_end, std::uint64_t when,
                  ObjectTable& gone);

  // kNone32 when the address lies in no module.
  std::uint32_t module_of(std::uint64_t address) const;
  // The newest module whose range holds the address, also one that is gone.
  std::uint32_t module_ever(std::uint64_t address) const;
  const Mapping* find(std::uint64_t address) const;
  const std::vector<Module>& modules() const { return modules_; }

  // What is still mapped, by ascending address.
  template <typename Visitor>
  void for_each_live(Visitor&& visit) const {
    for (const auto& [start, mapping] : live_) visit(mapping);
  }

 private:
  std::uint32_t join_module(const Mapping& mapping);
  static void bury(const Mapping& mapping, std::uint64_t when, ObjectTable& gone);

  std::map<std::uint64_t, Mapping> live_;  // by start; never overlapping
  std::vector<Module> modules_;
};

}  // namespace stallscope::target
