// SPDX-License-Identifier: Apache-2.0
#include "probes/object_map.h"

#include <algorithm>

namespace stallscope::probes {

void ObjectMap::Page::cut(std::uint32_t start, std::uint32_t end) {
  auto at = ranges_.begin() + (first_behind(start) - begin());
  while (at != ranges_.end() && at->start < end) {
    if (at->start < start && at->end > end) {  // a hole in the middle
      const Range right{static_cast<std::uint16_t>(end), at->end, at->bucket};
      at->end = static_cast<std::uint16_t>(start);
      ranges_.insert(at + 1, right);
      return;
    }
    if (at->start < start) {
      at->end = static_cast<std::uint16_t>(start);
      ++at;
    } else if (at->end > end) {
      at->start = static_cast<std::uint16_t>(end);
      return;
    } else {
      at = ranges_.erase(at);
    }
  }
}

void ObjectMap::Page::insert(Range range) {
  const Range* at = first_behind(range.start);
  if (at != end() && at->start < range.end) {
    cut(range.start, range.end);
    at = first_behind(range.start);
  }
  ranges_.insert(ranges_.begin() + (at - begin()), range);
}

void ObjectMap::forget() {
  last_number_ = kNoPage;
  last_wide_ = last_gap_ = {kNoBucket, 0, 0};
}

const ObjectMap::Page* ObjectMap::look_up(std::uint64_t number) {
  last_number_ = number;
  last_ = pages_.find(number);
  return last_;
}

ObjectMap::Page& ObjectMap::make_page(std::uint64_t number) {
  const auto [page, fresh] = pages_.try_emplace(number);
  if (fresh) numbers_.insert(number);
  return *page;
}

ObjectMap::WideRanges::const_iterator ObjectMap::first_wide_behind(std::uint64_t address) const {
  auto at = wide_.upper_bound(address);
  if (at != wide_.begin() && std::prev(at)->second.end > address) --at;
  return at;
}

const Stretch* ObjectMap::look_up_wide(std::uint64_t address) {
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
  if (is_in(last_gap_, address)) return last_gap_;
  if (is_in(last_wide_, address)) return last_wide_;
  const Page* page = page_of(address >> kPageBits);
  if (page == nullptr || page->empty()) {
    const Stretch* wide = look_up_wide(address);
    return wide ? *wide : gap_around(address, page);
  }
  const std::uint64_t base = address & ~kPageMask;
  const auto offset = static_cast<std::uint32_t>(address & kPageMask);
  const Range* at = page->first_behind(offset);
  if (at != page->end() && at->start <= offset)
    return {at->bucket, base + at->start, base + at->end};
  return {kNoBucket, at != page->begin() ? base + at[-1].end : base,
          at != page->end() ? base + at->start : base + kPageMask + 1};
}

// In a page that keeps nothing, and in no wide range.
Stretch ObjectMap::gap_around(std::uint64_t address, const Page* page) {
  const std::uint64_t number = address >> kPageBits;
  if (page != nullptr) return {kNoBucket, number << kPageBits, (number + 1) << kPageBits};
  Stretch gap{kNoBucket, 0, 0};
  const auto behind = numbers_.lower_bound(number);
  if (behind != numbers_.end()) gap.end = *behind << kPageBits;
  if (behind != numbers_.begin()) gap.start = (*std::prev(behind) + 1) << kPageBits;
  const auto next = first_wide_behind(address);
  if (next != wide_.end()) gap.end = std::min(gap.end - 1, next->second.start - 1) + 1;
  if (next != wide_.begin()) gap.start = std::max(gap.start, std::prev(next)->second.end);
  last_gap_ = gap;
  return gap;
}

bool ObjectMap::insert(std::uint64_t start, std::uint64_t size, BucketId bucket) {
  if (starts_) starts_->insert(start, size);
  if (start + size < start) return false;
  if (size >= kWide) {
    cut(start, size);
    place(start, start + size, bucket);
    return true;
  }
  forget();
  bool touched = false;
  for_each_page(start, size, [&](std::uint64_t number, std::uint32_t from, std::uint32_t to) {
    const Range range{static_cast<std::uint16_t>(from), static_cast<std::uint16_t>(to), bucket};
    Page& page = make_page(number);
    if (!page.empty() || wide_.empty()) return page.insert(range);
    touched |= cut_wide((number << kPageBits) + from, (number << kPageBits) + to);
    make_page(number).insert(range);
  });
  return touched;
}

bool ObjectMap::erase(std::uint64_t start, std::uint64_t size) {
  if (starts_) starts_->erase(start, size);
  return start + size >= start && cut(start, size);
}

void ObjectMap::place(std::uint64_t start, std::uint64_t end, BucketId bucket) {
  if (end - start >= kWide) {
    const std::uint64_t first = (start + kPageMask) & ~kPageMask, last = end & ~kPageMask;
    wide_.emplace(first, Stretch{bucket, first, last});
    place(start, first, bucket);
    start = last;
  }
  for_each_page(start, end - start,
                [&](std::uint64_t number, std::uint32_t from, std::uint32_t to) {
                  make_page(number).insert(
                      {static_cast<std::uint16_t>(from), static_cast<std::uint16_t>(to), bucket});
                });
}

bool ObjectMap::cut(std::uint64_t start, std::uint64_t size) {
  forget();
  if (size >= kWide) {
    cut_pages(start, size);
    return cut_wide(start, start + size);
  }
  bool touched = false;
  for_each_page(start, size, [&](std::uint64_t number, std::uint32_t from, std::uint32_t to) {
    Page* page = pages_.find(number);
    if (page != nullptr && !page->empty()) return page->cut(from, to);
    const std::uint64_t base = number << kPageBits;
    if (!wide_.empty()) touched |= cut_wide(base + from, base + to);
  });
  return touched;
}

// For what is wide. Pages stay when they become empty: what was there once comes back, mostly. But
// those of a wide range go, which is how memory that a program gives back is given back here.
void ObjectMap::cut_pages(std::uint64_t start, std::uint64_t size) {
  const std::uint64_t last = start + size - 1;
  for (auto at = numbers_.lower_bound(start >> kPageBits);
       at != numbers_.end() && *at <= last >> kPageBits;) {
    const std::uint64_t number = *at;
    const std::uint64_t from = number == start >> kPageBits ? start & kPageMask : 0;
    const std::uint64_t to = number == last >> kPageBits ? last & kPageMask : kPageMask;
    Page* page = pages_.find(number);
    page->cut(static_cast<std::uint32_t>(from), static_cast<std::uint32_t>(to + 1));
    if (!page->empty()) {
      ++at;
      continue;
    }
    pages_.erase(number);
    at = numbers_.erase(at);
  }
}

bool ObjectMap::cut_wide(std::uint64_t start, std::uint64_t end) {
  auto at = first_wide_behind(start);
  bool touched = false;
  while (at != wide_.end() && at->second.start < end) {
    const Stretch wide = at->second;
    wide_.erase(at);
    touched = true;
    if (wide.start < start) place(wide.start, start, wide.bucket);
    if (wide.end > end) place(end, wide.end, wide.bucket);
    if (wide.end >= end) break;
    at = first_wide_behind(wide.end);
  }
  return touched;
}

}  // namespace stallscope::probes
