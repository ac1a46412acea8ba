// SPDX-License-Identifier: Apache-2.0
#include "stack/recency_bits.h"

namespace stallscope::stack {

void RecencyBits::allocate(std::uint32_t moments) {
  const std::uint32_t areas = (moments + kAreaBits - 1) / kAreaBits;
  words_ = LargeArray<std::uint64_t>(moments / 64 + 1);
  in_row_ = LargeArray<std::uint16_t>(std::size_t{moments / kRowBits + 1} * kRow);
  in_span_ = LargeArray<std::uint16_t>(std::size_t{moments / kSpanBits + 1} * kRow);
  in_area_ = LargeArray<std::uint32_t>(std::size_t{areas + 1} * kSpans);
  areas_ = LargeArray<std::uint32_t>(areas + 1);
  point(1, moments, 0);
}

void RecencyBits::point(std::uint32_t next, std::uint32_t end, std::uint32_t live) {
  at_ = {words_.data(), in_row_.data(), in_span_.data(), in_area_.data(), areas_.data(), next, end,
         live};
}

RecencyBits::RecencyBits(const RecencyBits& other)
    : words_(other.words_),
      in_row_(other.in_row_),
      in_span_(other.in_span_),
      in_area_(other.in_area_),
      areas_(other.areas_) {
  point(other.at_.next, other.at_.end, other.at_.live);
}

void RecencyBits::enter_word(Cursor at, std::uint32_t word) {
  const std::uint32_t moment = word * 64;
  // The place before is complete: its running count and its own bits make ours.
  const std::uint32_t row =
      at.in_row[word - 1] + static_cast<std::uint32_t>(std::popcount(at.words[word - 1]));
  at.in_row[word] = static_cast<std::uint16_t>(moment % kRowBits ? row : 0);
  if (moment % kRowBits) return;
  const std::uint32_t span = at.in_span[moment / kRowBits - 1] + row;
  at.in_span[moment / kRowBits] = static_cast<std::uint16_t>(moment % kSpanBits ? span : 0);
  if (moment % kSpanBits) return;
  const std::uint32_t area = at.in_area[moment / kSpanBits - 1] + span;
  at.in_area[moment / kSpanBits] = moment % kAreaBits ? area : 0;
  if (moment % kAreaBits) return;
  at.areas[moment / kAreaBits] = at.areas[moment / kAreaBits - 1] + area;
}

void RecencyBits::renumber() {
  const std::uint32_t live = at_.live;
  std::uint64_t moments = at_.end;
  while (moments < std::uint64_t{live} * 4 && moments < (std::uint64_t{1} << 31)) moments *= 2;
  if (moments == at_.end) {
    std::fill(words_.begin(), words_.end(), 0);
  } else {
    allocate(static_cast<std::uint32_t>(moments));
  }
  at_.next = 1;
  at_.live = 0;
  for (std::uint32_t i = 0; i < live; ++i) set_next();
}

}  // namespace stallscope::stack
