// SPDX-License-Identifier: Apache-2.0
// Belady's optimum (1966): the page whose next reference is farthest away goes; the bound that no
// policy beats. It needs the future, so references are kept (4 bytes each) and run on demand, in
// two passes: backwards for the next reference of each, forwards for the misses.
//
// A page in memory is known by the moment of its next reference, so memory is a set of moments: a
// reference at moment t hits when t is in the set, and the victim is the largest moment there.
// Pages never referenced again are only counted; they go first.
#pragma once

#include <vector>

#include "stack/numbering.h"
#include "stack/replacement.h"

namespace stallscope::stack {

class Belady final : public Replacement {
 public:
  static constexpr PolicyFacts kFacts{
      "belady", "the page needed again latest goes: the bound, it knows the future", 1};
  explicit Belady(std::uint32_t memory) : memory_(memory) {}

  Status append(std::span<const std::uint64_t> pages,
                std::span<const std::uint8_t> writes) override;
  Misses misses() override;

 private:
  std::vector<std::uint32_t> next_references() const;

  Numbering numbering_;
  std::vector<std::uint32_t> numbers_;
  std::vector<std::uint8_t> writes_;
  std::uint32_t memory_;
};

}  // namespace stallscope::stack
