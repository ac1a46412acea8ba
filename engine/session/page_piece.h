// SPDX-License-Identifier: Apache-2.0
// A part of a trace by itself: what it says of the LRU curve of the whole.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"

namespace stallscope::session {

struct PagePiece {
  std::uint64_t references = 0;
  // Misses with memory for 0, 1, 2, … pages, of this part alone.
  std::vector<std::uint64_t> curve;
  std::vector<std::uint64_t> firsts;  // pages in the order of their first references
  std::vector<std::uint64_t> lasts;   // and in that of their last ones
};

// Of the blocks that begin at or behind the instruction `first`, and before `last`. A page that is
// referenced several times without another in between is referenced once.
Result<PagePiece> page_piece(const std::string& path, std::uint64_t page_size, std::uint64_t first,
                             std::uint64_t last);

}  // namespace stallscope::session
