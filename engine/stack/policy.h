// SPDX-License-Identifier: Apache-2.0
// What every replacement policy is: a struct with
//   static constexpr PolicyFacts kFacts;
//   explicit NAME(std::uint32_t memory);     pages of memory, at least kFacts.least
//   bool access(std::uint32_t page);         true for a hit; a miss brings the page in
//   std::uint32_t victim() const;            the page that the last access threw out, or kNone
//   void reserve(std::uint32_t pages);       pages to come are below this number
//   void prefetch(std::uint32_t page) const; a hint that an access follows soon
//   std::uint64_t bytes() const;
// Pages are numbered densely (Numbering). An access throws out at most one page.
#pragma once

#include <cstdint>
#include <string_view>

namespace stallscope::stack {

inline constexpr std::uint32_t kNone = UINT32_MAX;

struct PolicyFacts {
  std::string_view name;
  std::string_view description;
  std::uint32_t least;  // pages of memory that it needs
};

}  // namespace stallscope::stack
