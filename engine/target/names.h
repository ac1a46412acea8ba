// SPDX-License-Identifier: Apache-2.0
// Ranges of memory that the program named, from the naming to their end: with the heap block or
// the mapping that holds them, or when the same place is named again.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "stallscope_tables.h"

namespace stallscope::target {

class Names {
 public:
  struct Name {
    std::uint64_t size;
    std::string text;
    std::uint64_t born;
    std::uint32_t thread;
  };

  void give(std::uint64_t address, Name name, ObjectTable& gone);
  // The memory is gone, and with it the names that lie whole in it.
  void release(std::uint64_t address, std::uint64_t size, std::uint64_t when, ObjectTable& gone);
  // The memory released last is still there: its names live on, as second rows.
  void revive(std::uint64_t when);

  template <typename Visitor>
  void for_each_live(Visitor&& visit) const {
    for (const auto& [address, name] : live_) visit(address, name);
  }
  void fill_live(ObjectTable& table) const;

 private:
  using Live = std::map<std::uint64_t, Name>;  // by address
  static void bury(std::uint64_t address, const Name& name, std::uint64_t when, ObjectTable& table);

  Live live_;
  std::vector<Live::value_type> released_;  // last
};

}  // namespace stallscope::target
