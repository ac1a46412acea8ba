// SPDX-License-Identifier: Apache-2.0
// From what is to be looked up for each access to the lists that passes work on.
#pragma once

#include <cstdint>

#include "machine/batch.h"

namespace stallscope::machine {

struct Split {
  std::uint32_t lines, pages;  // entries that were written
  bool crossing;               // some go to several lines or pages
};

// `what` as in Missed, and as many entries as there are. Both lists have room for kSplitSlack more.
inline constexpr std::uint32_t kSplitSlack = 16;
Split split(const std::uint8_t* what, std::uint32_t count, std::uint32_t* lines,
            std::uint32_t* pages);

}  // namespace stallscope::machine
