// SPDX-License-Identifier: Apache-2.0
#include "probes/range_set.h"

#include <algorithm>

namespace stallscope::probes {
namespace {

bool same(const RangeSet::Range& a, const RangeSet::Range& b) {
  return a.start == b.start && a.end == b.end && a.watch == b.watch;
}

}  // namespace

void RangeSet::add(const Range& range) {
  if (range.end <= range.start) return;
  ++size_;
  if (range.end - range.start > kWide) {
    wide_.push_back(range);
    return widen();
  }
  for (std::uint64_t line = range.start >> kLineBits; line <= (range.end - 1) >> kLineBits;
       ++line) {
    const auto [slot, fresh] = by_line_.try_emplace(line);
    if (fresh) {
      if (free_.empty()) {
        free_.push_back(static_cast<std::uint32_t>(lists_.size()));
        lists_.emplace_back();
      }
      *slot = free_.back();
      free_.pop_back();
      const std::size_t at = place(line);
      ++counts_[at];
      bits_[at / 64] |= std::uint64_t{1} << (at % 64);
    }
    lists_[*slot].push_back(range);
  }
}

void RangeSet::remove(const Range& range) {
  if (range.end <= range.start) return;
  if (range.end - range.start > kWide) {
    size_ -= std::erase_if(wide_, [&](const Range& one) { return same(one, range); }) > 0;
    return widen();
  }
  bool found = false;
  for (std::uint64_t line = range.start >> kLineBits; line <= (range.end - 1) >> kLineBits;
       ++line) {
    const std::uint32_t* slot = by_line_.find(line);
    if (!slot) continue;
    std::vector<Range>& list = lists_[*slot];
    const auto at =
        std::find_if(list.begin(), list.end(), [&](const Range& one) { return same(one, range); });
    if (at == list.end()) continue;
    found = true;
    list.erase(at);
    if (!list.empty()) continue;
    free_.push_back(*slot);
    by_line_.erase(line);
    const std::size_t bit = place(line);
    if (--counts_[bit] == 0) bits_[bit / 64] &= ~(std::uint64_t{1} << (bit % 64));
  }
  size_ -= found;
}

bool RangeSet::passes_rest(std::uint64_t address, std::uint32_t size) const {
  for (std::uint64_t line = (address >> kLineBits) + 1; line <= (address + size - 1) >> kLineBits;
       ++line)
    if (passes(line)) return true;
  return false;
}

// Unsigned arithmetic: without wide ranges no line lies within the span.
void RangeSet::widen() {
  std::uint64_t first = kAnyLine, last = 0;
  for (const Range& range : wide_) {
    first = std::min(first, range.start >> kLineBits);
    last = std::max(last, (range.end - 1) >> kLineBits);
  }
  wide_first_ = first;
  wide_span_ = wide_.empty() ? 0 : last - first;
}

}  // namespace stallscope::probes
