// SPDX-License-Identifier: Apache-2.0
#include "stack/recency_bits.h"

namespace stallscope::stack {

void RecencyBits::allocate(std::uint32_t moments) {
  const std::uint32_t areas = (moments + kAreaBits - 1) / kAreaBits;
  end_ = moments;
  words_ = LargeArray<std::uint64_t>(moments / 64 + 1);
  in_row_ = LargeArray<std::uint16_t>(std::size_t{moments / kRowBits + 1} * kRow);
  in_span_ = LargeArray<std::uint16_t>(std::size_t{moments / kSpanBits + 1} * kRow);
  in_area_ = LargeArray<std::uint32_t>(std::size_t{areas + 1} * kSpans);
  areas_ = LargeArray<std::uint32_t>(areas + 1);
}

void RecencyBits::enter_word(std::uint32_t word) {
  const std::uint32_t moment = word * 64;
  // The place before is complete: its running count and its own bits make ours.
  const std::uint32_t row = in_row_[word - 1] + std::popcount(words_[word - 1]);
  in_row_[word] = static_cast<std::uint16_t>(moment % kRowBits ? row : 0);
  if (moment % kRowBits) return;
  const std::uint32_t span = in_span_[moment / kRowBits - 1] + row;
  in_span_[moment / kRowBits] = static_cast<std::uint16_t>(moment % kSpanBits ? span : 0);
  if (moment % kSpanBits) return;
  const std::uint32_t area = in_area_[moment / kSpanBits - 1] + span;
  in_area_[moment / kSpanBits] = moment % kAreaBits ? area : 0;
  if (moment % kAreaBits) return;
  areas_[moment / kAreaBits] = areas_[moment / kAreaBits - 1] + area;
}

void RecencyBits::renumber() {
  const std::uint32_t live = live_;
  std::uint64_t moments = end_;
  while (moments < std::uint64_t{live} * 4 && moments < (std::uint64_t{1} << 31)) moments *= 2;
  if (moments == end_) {
    std::fill(words_.begin(), words_.end(), 0);
  } else {
    allocate(static_cast<std::uint32_t>(moments));
  }
  next_ = 1;
  live_ = 0;
  for (std::uint32_t i = 0; i < live; ++i) set_next();
}

}  // namespace stallscope::stack
