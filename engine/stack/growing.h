// SPDX-License-Identifier: Apache-2.0
// An array that is indexed by page numbers and grows with them; new elements are zero.
#pragma once

#include <algorithm>
#include <bit>

#include "stack/page_table.h"

namespace stallscope::stack {

template <typename T>
class Growing {
 public:
  T& operator[](std::size_t i) const { return values_[i]; }
  std::uint64_t bytes() const { return values_.size() * sizeof(T); }
  STALLSCOPE_INLINE void prefetch(std::size_t i) const {
    __builtin_prefetch(values_.data() + i, 1);
  }
  void reserve(std::size_t size) {
    if (size <= values_.size()) return;
    LargeArray<T> larger(std::bit_ceil(std::max<std::size_t>(size, 1024)));
    std::copy(values_.begin(), values_.end(), larger.begin());
    values_ = std::move(larger);
  }

 private:
  LargeArray<T> values_;
};

}  // namespace stallscope::stack
