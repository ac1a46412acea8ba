// SPDX-License-Identifier: Apache-2.0
// Any number of byte ranges that accesses are matched against, as match hardware would: a table of
// bits by line that lets nothing of interest pass unseen and a little else, and an exact list
// behind it that takes the rest out again.
//
// Ranges may overlap. Not thread-safe.
#pragma once

#include <cstdint>
#include <vector>

#include "base/flat_map.h"

namespace stallscope::probes {

class RangeSet {
 public:
  struct Range {
    std::uint64_t start, end;
    std::uint32_t watch;
  };

  // Nothing for an empty range.
  void add(const Range& range);
  // One that was added.
  void remove(const Range& range);

  // Whether an access may touch a range; `false_hits` of these do not.
  bool may_touch(std::uint64_t address, std::uint32_t size) const {
    if (passes(address >> kLineBits)) return true;
    return (address & kLineMask) + size > kLineMask + 1 && passes_rest(address, size);
  }
  // visit(range) for each range that the access touches, once each.
  template <typename Visit>
  void touched(std::uint64_t address, std::uint32_t size, Visit&& visit) {
    const std::uint64_t end = address + size;
    bool any = false;
    const auto check = [&](const Range& range, std::uint64_t line) {
      if (range.start >= end || range.end <= address) return;
      // In the first line that both the range and the access have, or it would come twice.
      const std::uint64_t first = (range.start > address ? range.start : address) >> kLineBits;
      if (line != kAnyLine && first != line) return;
      any = true;
      visit(range);
    };
    for (std::uint64_t line = address >> kLineBits; line <= (end - 1) >> kLineBits; ++line)
      if (const std::uint32_t* slot = by_line_.find(line); slot)
        for (const Range& range : lists_[*slot]) check(range, line);
    for (const Range& range : wide_) check(range, kAnyLine);
    false_hits_ += !any;
  }

  std::uint64_t false_hits() const { return false_hits_; }
  std::size_t size() const { return size_; }

 private:
  static constexpr unsigned kLineBits = 6;
  static constexpr std::uint64_t kLineMask = (1u << kLineBits) - 1;
  static constexpr unsigned kFilterBits = 20;
  static constexpr std::uint64_t kWide = 256 << 10;  // bytes; longer ranges are not put into lines
  static constexpr std::uint64_t kAnyLine = ~std::uint64_t{0};

  static std::size_t place(std::uint64_t line) {
    return static_cast<std::size_t>(line * 0x9e3779b97f4a7c15ULL >> (64 - kFilterBits));
  }
  bool passes(std::uint64_t line) const {
    const std::size_t at = place(line);
    return (bits_[at / 64] >> (at % 64) & 1) | (line - wide_first_ <= wide_span_);
  }
  bool passes_rest(std::uint64_t address, std::uint32_t size) const;
  void widen();

  std::vector<std::uint64_t> bits_ = std::vector<std::uint64_t>((1u << kFilterBits) / 64);
  std::vector<std::uint32_t> counts_ = std::vector<std::uint32_t>(1u << kFilterBits);
  FlatMap<std::uint32_t> by_line_;  // index into lists_
  std::vector<std::vector<Range>> lists_;
  std::vector<std::uint32_t> free_;  // lists that nobody has
  std::vector<Range> wide_;
  std::uint64_t wide_first_ = kAnyLine, wide_span_ = 0;  // lines that wide ranges lie in
  std::uint64_t false_hits_ = 0;
  std::size_t size_ = 0;
};

}  // namespace stallscope::probes
