// SPDX-License-Identifier: Apache-2.0
// The lines of code that running up to an exit fetches, in their order.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "stream/code_table.h"

namespace stallscope::session {

class CodeLines {
 public:
  // `code` outlives this. `bytes` of a line; 0 when no cache holds instructions, and no exit has
  // lines then.
  CodeLines(const stream::CodeTable& code, std::uint64_t bytes) : code_(code), bytes_(bytes) {}

  // All lines of all exits, one exit after the other, and a few words more.
  static constexpr std::uint32_t kSlack = 16;
  const std::uint64_t* all() const { return lines_.data(); }
  std::uint32_t first_of(std::uint32_t exit) const { return known_[exit].first; }

  std::span<const std::uint64_t> of(std::uint32_t exit) {
    if (exit >= known_.size()) learn();
    return {lines_.data() + known_[exit].first, known_[exit].count};
  }

 private:
  struct Known {
    std::uint32_t first;  // index into lines_
    std::uint32_t count;
  };
  void learn();  // what the table has by now

  const stream::CodeTable& code_;
  std::uint64_t bytes_;
  std::vector<Known> known_;          // by exit
  std::vector<std::uint64_t> lines_;  // addresses; kSlack words at the end mean nothing
};

}  // namespace stallscope::session
