// SPDX-License-Identifier: Apache-2.0
#include "probes/object_map.h"

#include <algorithm>

namespace stallscope::probes {

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

void ObjectMap::forget() {
  last_number_ = ~0ULL;
  last_wide_ = {0, 0, kNoBucket};
}

const ObjectMap::Page* ObjectMap::look_up(std::uint64_t number) {
  auto at = pages_.find(number);
  last_number_ = number;
  last_ = at == pages_.end() ? nullptr : at->second.get();
  return last_;
}

ObjectMap::WideRanges::const_iterator ObjectMap::first_wide_behind(std::uint64_t address) const {
  auto at = wide_.upper_bound(address);
  if (at != wide_.begin() && std::prev(at)->second.end > address) --at;
  return at;
}

const ObjectMap::Wide* ObjectMap::look_up_wide(std::uint64_t address) {
  const auto at = first_wide_behind(address);
  if (at == wide_.end() || at->second.start > address) return nullptr;
  last_wide_ = at->second;
  return &last_wide_;
}

bool ObjectMap::has_wide(std::uint64_t start, std::uint64_t size) const {
  if (wide_.empty()) return false;
  const auto at = first_wide_behind(start);
  return at != wide_.end() && at->second.start < start + size;
}

BucketId ObjectMap::find_most(std::uint64_t start, std::uint32_t size) {
  BucketId best = kNoBucket;
  std::uint64_t most = 0;
  split(start, size, [&](BucketId bucket, std::uint64_t, std::uint64_t bytes) {
    if (bucket == kNoBucket || bytes <= most) return;
    most = bytes;
    best = bucket;
  });
  return best;
}

Stretch ObjectMap::locate(std::uint64_t address) {
  const Page* page = page_of(address >> kPageBits);
  if (page != nullptr) {
    const auto offset = static_cast<std::uint32_t>(address & kPageMask);
    const auto at = page->first_behind(offset);
    const std::uint64_t base = address & ~kPageMask;
    if (at != page->ranges.end() && at->start <= offset)
      return {at->bucket, base + at->start, base + at->end};
  }
  const Wide* wide = wide_at(address);
  return wide ? Stretch{wide->bucket, wide->start, wide->end} : gap_around(address, page);
}

Stretch ObjectMap::gap_around(std::uint64_t address, const Page* page) const {
  Stretch gap{kNoBucket, 0, 0};
  const std::uint64_t number = address >> kPageBits;
  if (page != nullptr) {
    gap = {kNoBucket, number << kPageBits, (number + 1) << kPageBits};
    const auto next = page->first_behind(static_cast<std::uint32_t>(address & kPageMask));
    if (next != page->ranges.end()) gap.end = (number << kPageBits) + next->start;
    if (next != page->ranges.begin()) gap.start = (number << kPageBits) + std::prev(next)->end;
  } else {
    const auto behind = numbers_.lower_bound(number);
    if (behind != numbers_.end()) gap.end = *behind << kPageBits;
    if (behind != numbers_.begin()) gap.start = (*std::prev(behind) + 1) << kPageBits;
  }
  const auto next = first_wide_behind(address);
  if (next != wide_.end()) gap.end = std::min(gap.end - 1, next->second.start - 1) + 1;
  if (next != wide_.begin()) gap.start = std::max(gap.start, std::prev(next)->second.end);
  return gap;
}

void ObjectMap::insert(std::uint64_t start, std::uint64_t size, BucketId bucket) {
  forget();
  if (starts_) starts_->insert(start, size);
  if (!wide_.empty()) cut_wide(start, start + size);
  if (size >= kWide) {
    cut_pages(start, size);
    wide_.emplace(start, Wide{start, start + size, bucket});
    return;
  }
  for_each_page(start, size, [&](std::uint64_t number, std::uint32_t from, std::uint32_t to) {
    std::unique_ptr<Page>& page = pages_[number];
    if (!page) {
      page = std::make_unique<Page>();
      numbers_.insert(number);
    }
    page->insert({from, to, bucket});
  });
}

void ObjectMap::erase(std::uint64_t start, std::uint64_t size) {
  forget();
  if (starts_) starts_->erase(start, size);
  if (!wide_.empty()) cut_wide(start, start + size);
  cut_pages(start, size);
}

// Pages stay when they become empty: what was there once comes back, mostly. But those of a wide
// range go, which is how memory that a program gives back is given back here.
void ObjectMap::cut_pages(std::uint64_t start, std::uint64_t size) {
  const auto cut = [&](auto at, std::uint32_t from, std::uint32_t to) {
    at->second->cut(from, to);
    if (size < kWide || !at->second->ranges.empty()) return std::next(at);
    numbers_.erase(at->first);
    return pages_.erase(at);
  };
  if (size >> kPageBits <= pages_.size()) {
    for_each_page(start, size, [&](std::uint64_t number, std::uint32_t from, std::uint32_t to) {
      if (auto at = pages_.find(number); at != pages_.end()) cut(at, from, to);
    });
    return;
  }
  const std::uint64_t last = start + size - 1;
  for (auto at = pages_.begin(); at != pages_.end();) {
    const std::uint64_t number = at->first;
    if (number < start >> kPageBits || number > last >> kPageBits) {
      ++at;
      continue;
    }
    const std::uint64_t from = number == start >> kPageBits ? start & kPageMask : 0;
    const std::uint64_t to = number == last >> kPageBits ? last & kPageMask : kPageMask;
    at = cut(at, static_cast<std::uint32_t>(from), static_cast<std::uint32_t>(to + 1));
  }
}

void ObjectMap::cut_wide(std::uint64_t start, std::uint64_t end) {
  auto at = wide_.upper_bound(start);
  if (at != wide_.begin() && std::prev(at)->second.end > start) --at;
  while (at != wide_.end() && at->second.start < end) {
    const Wide wide = at->second;
    at = wide_.erase(at);
    if (wide.start < start) wide_.emplace(wide.start, Wide{wide.start, start, wide.bucket});
    if (wide.end > end) wide_.emplace(end, Wide{end, wide.end, wide.bucket});
    if (wide.end > end) return;
  }
}

}  // namespace stallscope::probes
