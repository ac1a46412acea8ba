// SPDX-License-Identifier: Apache-2.0
#include "symbols/interval_map.h"

#include <algorithm>
#include <queue>

namespace stallscope::symbols {
namespace {

struct Loses {
  bool operator()(const Interval* a, const Interval* b) const {
    if (a->priority != b->priority) return a->priority < b->priority;
    return a->value < b->value;
  }
};

}  // namespace

void IntervalMap::close(std::uint64_t at, std::uint32_t value) {
  if (!starts_.empty() && starts_.back() == at) {
    values_.back() = value;
    return;
  }
  if (values_.empty() ? value == kNothing : values_.back() == value) return;
  starts_.push_back(at);
  values_.push_back(value);
}

IntervalMap IntervalMap::build(std::vector<Interval> intervals) {
  IntervalMap map;
  std::erase_if(intervals, [](const Interval& i) { return i.low >= i.high; });
  std::sort(intervals.begin(), intervals.end(),
            [](const Interval& a, const Interval& b) { return a.low < b.low; });
  std::priority_queue<const Interval*, std::vector<const Interval*>, Loses> open;
  std::size_t next = 0;
  std::uint64_t at = 0;
  while (next < intervals.size() || !open.empty()) {
    if (open.empty()) at = std::max(at, intervals[next].low);
    while (next < intervals.size() && intervals[next].low <= at) open.push(&intervals[next++]);
    while (!open.empty() && open.top()->high <= at) open.pop();
    map.close(at, open.empty() ? kNothing : open.top()->value);
    if (open.empty()) continue;
    at = open.top()->high;
    if (next < intervals.size()) at = std::min(at, intervals[next].low);
  }
  map.starts_.shrink_to_fit();
  map.values_.shrink_to_fit();
  return map;
}

std::uint32_t IntervalMap::find(std::uint64_t address) const {
  auto after = std::upper_bound(starts_.begin(), starts_.end(), address);
  if (after == starts_.begin()) return kNothing;
  return values_[static_cast<std::size_t>(after - starts_.begin()) - 1];
}

}  // namespace stallscope::symbols
