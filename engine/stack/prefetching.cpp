// SPDX-License-Identifier: Apache-2.0
#include "stack/prefetching.h"

#include <algorithm>
#include <array>

#include "stack/simulated.h"

namespace stallscope::stack {
namespace {
constexpr std::uint32_t kDeepest = 8;
constexpr std::uint32_t kPeriod = 64;  // prefetches between two adaptations
}  // namespace

Result<Prefetching> Prefetching::make(const PrefetchOptions& options) {
  const std::pair<std::string_view, Kind> kinds[] = {
      {"none", Kind::none}, {"spatial", Kind::spatial}, {"proximity", Kind::proximity}};
  const auto* kind = std::find_if(std::begin(kinds), std::end(kinds),
                                  [&](const auto& entry) { return entry.first == options.kind; });
  if (kind == std::end(kinds))
    return Error{"there is no prefetching " + options.kind, "", "one of: none, spatial, proximity"};
  if (options.memory == 0 || options.memory > kMostPages)
    return Error{"a memory of " + std::to_string(options.memory) + " pages",
                 "it must have 1 to " + std::to_string(kMostPages), ""};
  if (options.most == 0 || options.degree == 0 || options.degree > 255 || options.scan == 0 ||
      options.depth == 0)
    return Error{"prefetching with no pages, edges, scan or depth",
                 "each must be at least 1, and edges at most 255", ""};
  if (!(options.unused_share > 0 && options.unused_share <= 1))
    return Error{"a share of unused pages of " + std::to_string(options.unused_share),
                 "it must be above 0 and at most 1", ""};
  return Prefetching(options, kind->second);
}

Prefetching::Prefetching(const PrefetchOptions& options, Kind kind)
    : options_(options),
      kind_(kind),
      graph_(options.degree),
      without_(static_cast<std::uint32_t>(options.memory)),
      most_pending_(std::max<std::uint64_t>(
          1,
          static_cast<std::uint64_t>(static_cast<double>(options.memory) * options.unused_share))),
      reach_(kind == Kind::spatial ? options.most : options.depth) {}

PrefetchCounts Prefetching::counts() const {
  PrefetchCounts counts = counts_;
  counts.reach = kind_ == Kind::none ? 0 : reach_;
  counts.bytes = numbering_.bytes() + numbers_.bytes() + pages_.bytes() + memory_.bytes() +
                 stack_.bytes() + graph_.bytes() + without_.bytes();
  return counts;
}

void Prefetching::append(std::span<const std::uint64_t> pages,
                         std::span<const std::uint8_t> writes) {
  constexpr std::size_t kBatch = 1024;
  std::array<std::uint32_t, kBatch> numbers;
  for (std::size_t from = 0; from < pages.size(); from += kBatch) {
    const std::size_t to = std::min(from + kBatch, pages.size());
    numbering_.number(pages, from, to, numbers.data());
    const std::uint32_t size = numbering_.size();
    numbers_.reserve(size);
    pages_.reserve(size);
    memory_.reserve(size);
    stack_.reserve(size);
    graph_.reserve(size);
    without_.reserve(size);
    for (std::size_t i = from; i < to; ++i) {
      const std::uint32_t page = numbers[i - from];
      const bool write = !writes.empty() && writes[i];
      numbers_[page] = pages[i];
      access(page, write);
      access_without(page, write);
    }
    counts_.references += to - from;
  }
}

void Prefetching::access_without(std::uint32_t page, bool writes) {
  if (!without_.access(page)) {
    ++counts_.faults_without;
    if (const std::uint32_t victim = without_.victim(); victim != kNone) {
      counts_.writebacks_without += pages_[victim].dirty_without;
      pages_[victim].dirty_without = false;
    }
  }
  if (writes) pages_[page].dirty_without = true;
}

void Prefetching::access(std::uint32_t page, bool writes) {
  if (pages_[page].resident) {
    if (pages_[page].unused) {
      pages_[page].unused = false;
      ++counts_.used;
      resolved(true);
    }
    memory_.renew(page);
  } else {
    fault(page);
  }
  if (seen(page))
    stack_.renew(page);
  else
    stack_.add(page);
  if (writes) pages_[page].dirty = true;
}

void Prefetching::fault(std::uint32_t page) {
  ++counts_.faults;
  if (!seen(page)) ++counts_.cold;
  if (kind_ == Kind::proximity && seen(page)) learn(page);
  bring_in(page);
  if (kind_ != Kind::none) prefetch_around(page);
}

void Prefetching::learn(std::uint32_t page) {
  window_.clear();
  for (std::uint32_t q = stack_.newer(page); q != kNone && window_.size() < options_.scan;
       q = stack_.newer(q))
    window_.push_back(q);
  graph_.observe(page, window_);
}

void Prefetching::prefetch_around(std::uint32_t page) {
  if (kind_ == Kind::proximity) {
    for (const std::uint32_t q : graph_.reach(page, reach_, options_.most))
      if (!prefetch(q)) return;
    return;
  }
  for (std::uint32_t i = 1; i <= reach_; ++i) {
    const std::uint32_t q = numbering_.find(numbers_[page] + i);
    if (q != kNone && seen(q) && !prefetch(q)) return;
  }
}

bool Prefetching::prefetch(std::uint32_t page) {
  if (pages_[page].resident) {
    memory_.renew(page);
    ++counts_.touched;
    return true;
  }
  if (pending_ >= most_pending_) return false;
  bring_in(page);
  pages_[page].unused = true;
  ++pending_;
  ++counts_.prefetched;
  return true;
}

void Prefetching::bring_in(std::uint32_t page) {
  if (memory_.size() == options_.memory) {
    const std::uint32_t victim = memory_.oldest();
    memory_.remove(victim);
    counts_.writebacks += pages_[victim].dirty;
    if (pages_[victim].unused) {
      ++counts_.wasted;
      resolved(false);
    }
    Page& gone = pages_[victim];
    gone.resident = gone.unused = gone.dirty = false;
  }
  memory_.add(page);
  pages_[page].resident = true;
}

void Prefetching::resolved(bool used) {
  --pending_;
  recent_used_ += used;
  if (++recent_ < kPeriod) return;
  const double share = static_cast<double>(recent_used_) / kPeriod;
  recent_ = recent_used_ = 0;
  if (!options_.adapt) return;
  const bool spatial = kind_ == Kind::spatial;
  if (share > 0.75)
    reach_ = spatial ? std::min(reach_ * 2, options_.most) : std::min(reach_ + 1, kDeepest);
  else if (share < 0.25)
    reach_ = std::max(1u, spatial ? reach_ / 2 : reach_ - 1);
}

}  // namespace stallscope::stack
