// SPDX-License-Identifier: Apache-2.0
#include "probes/object_map.h"

#include <algorithm>

namespace stallscope::probes {

BucketId ObjectMap::Page::find(std::uint32_t offset) const {
  auto at = std::upper_bound(ranges.begin(), ranges.end(), offset,
                             [](std::uint32_t o, const Range& r) { return o < r.start; });
  if (at == ranges.begin()) return kNoBucket;
  --at;
  return offset < at->end ? at->bucket : kNoBucket;
}

BucketId ObjectMap::Page::find_most(std::uint32_t start, std::uint32_t end) const {
  auto at = first_behind(start);
  BucketId best = kNoBucket;
  std::uint32_t most = 0;
  for (; at != ranges.end() && at->start < end; ++at) {
    const std::uint32_t overlap = std::min(end, at->end) - std::max(start, at->start);
    if (overlap <= most) continue;
    most = overlap;
    best = at->bucket;
  }
  return best;
}

void ObjectMap::Page::cut(std::uint32_t start, std::uint32_t end) {
  auto at = std::lower_bound(ranges.begin(), ranges.end(), start,
                             [](const Range& r, std::uint32_t s) { return r.end <= s; });
  while (at != ranges.end() && at->start < end) {
    if (at->start < start && at->end > end) {  // a hole in the middle
      const Range right{end, at->end, at->bucket};
      at->end = start;
      ranges.insert(at + 1, right);
      return;
    }
    if (at->start < start) {
      at->end = start;
      ++at;
    } else if (at->end > end) {
      at->start = end;
      return;
    } else {
      at = ranges.erase(at);
    }
  }
}

void ObjectMap::Page::insert(Range range) {
  cut(range.start, range.end);
  auto at = std::upper_bound(ranges.begin(), ranges.end(), range.start,
                             [](std::uint32_t s, const Range& r) { return s < r.start; });
  ranges.insert(at, range);
}

const ObjectMap::Page* ObjectMap::look_up(std::uint64_t number) {
  auto at = pages_.find(number);
  last_number_ = number;
  last_ = at == pages_.end() ? nullptr : at->second.get();
  return last_;
}

void ObjectMap::insert(std::uint64_t start, std::uint64_t size, BucketId bucket) {
  last_number_ = ~0ULL;
  if (starts_) starts_->insert(start, size);
  for_each_page(start, size, [&](std::uint64_t number, std::uint32_t from, std::uint32_t to) {
    std::unique_ptr<Page>& page = pages_[number];
    if (!page) page = std::make_unique<Page>();
    page->insert({from, to, bucket});
  });
}

void ObjectMap::erase(std::uint64_t start, std::uint64_t size) {
  last_number_ = ~0ULL;
  if (starts_) starts_->erase(start, size);
  for_each_page(start, size, [&](std::uint64_t number, std::uint32_t from, std::uint32_t to) {
    auto at = pages_.find(number);
    if (at == pages_.end()) return;
    at->second->cut(from, to);
    if (at->second->ranges.empty()) pages_.erase(at);
  });
}

}  // namespace stallscope::probes
