// SPDX-License-Identifier: Apache-2.0
// A set of line numbers as an open hash table.
#pragma once

#include <cstdint>
#include <vector>

namespace stallscope::probes {

class LineSet {
 public:
  LineSet() : slots_(64, kFree) {}

  std::size_t size() const { return used_; }
  bool contains(std::uint64_t line) const { return slots_[find(line)] == line; }
  // Whether it was not there.
  bool add(std::uint64_t line) {
    std::uint64_t& slot = slots_[find(line)];
    if (slot == line) return false;
    slot = line;
    if (++used_ * 2 > slots_.size()) grow();
    return true;
  }
  // Whether it was there.
  bool remove(std::uint64_t line) {
    std::size_t hole = find(line);
    if (slots_[hole] != line) return false;
    const std::size_t mask = slots_.size() - 1;
    // Those behind it move up, so that no search ends early.
    for (std::size_t at = (hole + 1) & mask; slots_[at] != kFree; at = (at + 1) & mask) {
      if (((at - home(slots_[at])) & mask) < ((at - hole) & mask)) continue;
      slots_[hole] = slots_[at];
      hole = at;
    }
    slots_[hole] = kFree;
    --used_;
    return true;
  }
  // visit(line) for each from `first` to `last`, in any order.
  template <typename Visit>
  void for_each_in(std::uint64_t first, std::uint64_t last, Visit&& visit) const {
    if (used_ == 0) return;
    if (last - first < slots_.size()) {
      for (std::uint64_t line = first; line <= last; ++line)
        if (contains(line)) visit(line);
    } else {
      for (const std::uint64_t line : slots_)
        if (line != kFree && line >= first && line <= last) visit(line);
    }
  }

 private:
  static constexpr std::uint64_t kFree = ~std::uint64_t{0};  // no line has this number

  std::size_t home(std::uint64_t line) const {
    return (line * 0x9e3779b97f4a7c15ULL >> 20) & (slots_.size() - 1);
  }
  // Where the line is, or where it would go.
  std::size_t find(std::uint64_t line) const {
    const std::size_t mask = slots_.size() - 1;
    std::size_t at = home(line);
    while (slots_[at] != kFree && slots_[at] != line) at = (at + 1) & mask;
    return at;
  }
  void grow() {
    std::vector<std::uint64_t> old(slots_.size() * 2, kFree);
    old.swap(slots_);
    for (const std::uint64_t line : old)
      if (line != kFree) slots_[find(line)] = line;
  }

  std::vector<std::uint64_t> slots_;  // a power of two of them, at most half of them used
  std::size_t used_ = 0;
};

}  // namespace stallscope::probes
