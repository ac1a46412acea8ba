// SPDX-License-Identifier: Apache-2.0
// Pages as they are first seen get the numbers 0, 1, 2, ...: what is known of a page can then stand
// in plain arrays.
#pragma once

#include <cstdint>
#include <span>

#include "stack/page_table.h"
#include "stack/policy.h"

namespace stallscope::stack {

class Numbering {
 public:
  std::uint32_t size() const { return static_cast<std::uint32_t>(table_.size()); }
  std::uint64_t bytes() const { return table_.bytes(); }

  // The number of a page, or kNone.
  std::uint32_t find(std::uint64_t page) const {
    const PageTable::Entry* const entry = table_.find(page);
    return entry ? entry->value - 1 : kNone;
  }
  // The numbers of pages[from, to). Pages behind `to` are asked for ahead.
  void number(std::span<const std::uint64_t> pages, std::size_t from, std::size_t to,
              std::uint32_t* numbers) {
    constexpr std::size_t kAhead = 24;
    for (std::size_t i = from; i < to; ++i) {
      if (i + kAhead < pages.size()) table_.prefetch(pages[i + kAhead]);
      PageTable::Entry* const entry = table_.find_or_add(pages[i]);
      if (entry->value == 0) entry->value = static_cast<std::uint32_t>(table_.size());
      *numbers++ = entry->value - 1;
    }
  }

 private:
  PageTable table_;
};

}  // namespace stallscope::stack
