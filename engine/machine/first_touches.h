// SPDX-License-Identifier: Apache-2.0
// Which pages a program has touched: the kernel gives a page of anonymous memory when it is first
// accessed, cleared, and takes it back when it is unmapped. Memory counts as anonymous where nobody
// said that it is of a file.
// Not modelled: the one page of zeros that all pages share which are read before they are written.
#pragma once

#include <bit>
#include <cstdint>
#include <map>
#include <vector>

#include "base/flat_map.h"

namespace stallscope::machine {

class FirstTouches {
 public:
  explicit FirstTouches(std::uint64_t page) : bits_(std::countr_zero(page)) {}

  // Whether the page at this address has to be cleared: once, until it is told of again.
  bool clears(std::uint64_t address) {
    const std::uint64_t page = address >> bits_;
    return touched_.try_emplace(page).second && !of_file(page);
  }
  // From now on these bytes are of a file, or anonymous and untouched.
  void map(std::uint64_t address, std::uint64_t length, bool file);

  std::uint64_t first_of(std::uint64_t address) const { return address >> bits_ << bits_; }

 private:
  bool of_file(std::uint64_t page) const;
  void forget(std::uint64_t first, std::uint64_t last);
  void cut(std::uint64_t first, std::uint64_t last);

  unsigned bits_;
  FlatMap<bool> touched_;                         // by page; the value says nothing
  std::map<std::uint64_t, std::uint64_t> files_;  // last pages by first, apart from each other
};

}  // namespace stallscope::machine
