// SPDX-License-Identifier: Apache-2.0
#include "stack/mru_stack.h"

#include <algorithm>
#include <array>

namespace stallscope::stack {
namespace {
constexpr std::size_t kBatch = 1024, kAhead = 16;
}

void MruStack::access(std::uint32_t page) {
  const std::uint32_t top = size_ ? stack_[0] : 0;
  std::uint32_t place = places_[page];
  if (page == size_) {  // new pages are numbered in turn
    place = size_++;
  } else {
    ++counts_.counts()[place];
  }
  stack_[place] = top;
  places_[top] = place;
  stack_[0] = page;
  places_[page] = 0;
}

Status MruStack::append(std::span<const std::uint64_t> pages) {
  std::array<std::uint32_t, kBatch> numbers;
  for (std::size_t from = 0; from < pages.size(); from += kBatch) {
    const std::size_t to = std::min(from + kBatch, pages.size()), n = to - from;
    numbering_.number(pages, from, to, numbers.data());
    places_.reserve(numbering_.size());
    stack_.reserve(numbering_.size());
    counts_.expect(n, numbering_.size());
    const std::uint32_t before = size_;
    for (std::size_t i = 0; i < n; ++i) {
      if (i + kAhead < n) places_.prefetch(numbers[i + kAhead]);
      access(numbers[i]);
    }
    counts_.add_totals(n, size_ - before, size_);
  }
  return Done{};
}

Status ReversedRank::append(std::span<const std::uint64_t> pages) {
  std::array<std::uint32_t, kBatch> distances;
  for (std::size_t from = 0; from < pages.size(); from += kBatch) {
    const auto batch = pages.subspan(from, std::min(kBatch, pages.size() - from));
    std::uint64_t seen = lru_.distinct();
    const std::uint64_t before = seen;
    if (Status status = lru_.append(batch, distances.data()); !status) return status;
    counts_.expect(batch.size(), lru_.distinct());
    for (std::size_t i = 0; i < batch.size(); ++i) {
      if (distances[i] == kCold)
        ++seen;
      else
        ++counts_.counts()[seen - 1 - distances[i]];
    }
    counts_.add_totals(batch.size(), seen - before, seen);
  }
  return Done{};
}

}  // namespace stallscope::stack
