// SPDX-License-Identifier: Apache-2.0
#include "stack/page_table.h"

#include <utility>

namespace stallscope::stack {

void PageTable::allocate(std::uint64_t entries) {
  entries_ = LargeArray<Entry>(entries);
  mask_ = entries - 1;
  shift_ = 64 - static_cast<unsigned>(std::countr_zero(entries));
  limit_ = entries / 4 * 3;
}

void PageTable::grow() {
  const LargeArray<Entry> old = std::move(entries_);
  allocate(old.size() * 2);
  for (const Entry& entry : old)
    if (entry.value != 0) *probe(entry.page) = entry;
}

void PageTable::remove(Entry* entry) {
  std::uint64_t gap = static_cast<std::uint64_t>(entry - entries_.data());
  for (std::uint64_t i = (gap + 1) & mask_; entries_[i].value != 0; i = (i + 1) & mask_) {
    // An entry may fill the gap unless its home lies behind the gap.
    if (((i - home(entries_[i].page)) & mask_) < ((i - gap) & mask_)) continue;
    entries_[gap] = entries_[i];
    gap = i;
  }
  entries_[gap] = {};
  --used_;
}

}  // namespace stallscope::stack
