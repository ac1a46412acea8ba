// SPDX-License-Identifier: Apache-2.0
// Numbers by region, stat bucket and memory operation. An operation tends to stay with its bucket,
// so the last pair of each is remembered.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <utility>
#include <vector>

#include "base/flat_map.h"
#include "probes/object_map.h"
#include "stallscope_tables.h"

namespace stallscope::probes {

template <typename Numbers>
class Tally {
 public:
  // Those of the region that the program is in; they stay where they are. `operation` is kNone32
  // for none in particular.
  Numbers& at(BucketId bucket, std::uint32_t operation) {
    if (operation < now_.recent.size() && now_.recent[operation].bucket == bucket)
      return now_.numbers[now_.recent[operation].index];
    return find(bucket, operation);
  }
  // Regions are numbered from 0, where a run begins.
  void enter(std::uint32_t region) {
    if (region == region_) return;
    const std::size_t needed = std::max(region, region_) + 1;
    if (parked_.size() < needed) parked_.resize(needed);
    parked_[region_] = std::move(now_);
    now_ = std::move(parked_[region]);
    region_ = region;
  }
  // visit(region, bucket, operation, numbers), ordered by region, bucket and operation.
  template <typename Visit>
  void for_each(Visit&& visit) const {
    const std::size_t regions = std::max<std::size_t>(parked_.size(), region_ + 1);
    for (std::uint32_t region = 0; region < regions; ++region) {
      const Region& one = region == region_ ? now_ : parked_[region];
      std::vector<std::pair<std::uint64_t, std::uint32_t>> ordered;
      one.index.for_each(
          [&](std::uint64_t key, std::uint32_t index) { ordered.emplace_back(key, index); });
      std::sort(ordered.begin(), ordered.end());
      for (const auto& [key, index] : ordered)
        visit(region, static_cast<BucketId>(key >> 32), static_cast<std::uint32_t>(key),
              one.numbers[index]);
    }
  }

 private:
  struct Recent {
    BucketId bucket = kNoBucket;
    std::uint32_t index = 0;
  };
  struct Region {
    std::vector<Recent> recent;  // by operation
    std::deque<Numbers> numbers;
    FlatMap<std::uint32_t> index;  // bucket and operation -> numbers
  };

  Numbers& find(BucketId bucket, std::uint32_t operation) {
    const std::uint64_t key = std::uint64_t{bucket} << 32 | operation;
    const auto [at, fresh] = now_.index.try_emplace(key);
    if (fresh) {
      *at = static_cast<std::uint32_t>(now_.numbers.size());
      now_.numbers.emplace_back();
    }
    if (operation != kNone32) {
      if (operation >= now_.recent.size()) now_.recent.resize(operation + 1);
      now_.recent[operation] = {bucket, *at};
    }
    return now_.numbers[*at];
  }

  Region now_;
  std::vector<Region> parked_;  // the others, by number
  std::uint32_t region_ = 0;
};

}  // namespace stallscope::probes
