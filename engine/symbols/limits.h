// SPDX-License-Identifier: Apache-2.0
// What reading one file may cost. ELF and DWARF come from whatever was recorded, so every loop and
// every allocation over them is bounded by one of these. The bounds count work, not seconds: the
// same file gives the same names on a slow and on a fast machine.
#pragma once

#include <cstdint>

namespace stallscope::symbols {

struct Limits {
  std::uint64_t file_bytes = 8ull << 30;          // larger files are not opened
  std::uint64_t resident_bytes = 64ull << 20;     // larger files are mapped instead of read
  std::uint64_t decompressed_bytes = 2ull << 30;  // all compressed sections together
  std::uint64_t work = 2'000'000'000;             // entries, ranges and bytes stepped over
  std::uint32_t sections = 100'000;
  std::uint32_t segments = 1'000;
  std::uint32_t symbols = 4'000'000;
  std::uint32_t units = 500'000;
  std::uint32_t scopes = 8'000'000;      // functions and inlined calls, all units together
  std::uint32_t line_rows = 16'000'000;  // all units together
  std::uint32_t variables = 1'000'000;
  std::uint32_t types = 1'000'000;
  std::uint32_t members = 4'000'000;  // of all types together
  std::uint32_t locals = 100'000;     // places of one function's variables
  std::uint32_t entry_depth = 200;    // nesting of debug entries
  std::uint32_t type_depth = 24;      // pointers to arrays of pointers to …
  std::uint32_t inline_depth = 128;   // frames at one address
};

// Counts work down. Once spent it stays spent, so that every loop behind it ends at once.
class Budget {
 public:
  explicit Budget(std::uint64_t work) : left_(work) {}
  [[nodiscard]] bool spend(std::uint64_t work) {
    if (work > left_) {
      left_ = 0;
      spent_ = true;
      return false;
    }
    left_ -= work;
    return true;
  }
  bool spent() const { return spent_; }

 private:
  std::uint64_t left_;
  bool spent_ = false;
};

}  // namespace stallscope::symbols
