// SPDX-License-Identifier: Apache-2.0
#include "probes/misses.h"

#include <algorithm>
#include <tuple>

namespace stallscope::probes {

Misses::Counts& Misses::find_counts(BucketId bucket, std::uint32_t operation) {
  const std::uint64_t key = std::uint64_t{bucket} << 32 | operation;
  auto [at, fresh] = index_.try_emplace(key, static_cast<std::uint32_t>(counts_.size()));
  if (fresh) counts_.emplace_back();
  if (operation >= recent_.size()) recent_.resize(operation + 1);
  recent_[operation] = {bucket, at->second};
  return counts_[at->second];
}

void Misses::evict(unsigned level, BucketId victim, BucketId culprit, std::uint32_t operation) {
  const std::uint64_t pair = std::uint64_t{victim} << 32 | culprit;
  ++evicted_[{pair, std::uint64_t{operation} << 8 | level}];
}

void Misses::fill(MissTable& table) const {
  std::vector<std::pair<std::uint64_t, std::uint32_t>> ordered(index_.begin(), index_.end());
  std::sort(ordered.begin(), ordered.end());
  for (const auto& [key, index] : ordered)
    for (unsigned level = 0; level < levels_; ++level)
      if (counts_[index].misses[level])
        table.append({static_cast<std::uint8_t>(level), static_cast<std::uint32_t>(key >> 32),
                      static_cast<std::uint32_t>(key), counts_[index].misses[level],
                      counts_[index].latency[level]});
}

void Misses::fill(EvictionTable& table) const {
  std::vector<std::pair<Eviction, std::uint64_t>> rows(evicted_.begin(), evicted_.end());
  std::sort(rows.begin(), rows.end(), [](const auto& a, const auto& b) {
    return std::tie(a.first.pair, a.first.place) < std::tie(b.first.pair, b.first.place);
  });
  for (const auto& [key, count] : rows)
    table.append({static_cast<std::uint8_t>(key.place & 0xff),
                  static_cast<std::uint32_t>(key.pair >> 32), static_cast<std::uint32_t>(key.pair),
                  static_cast<std::uint32_t>(key.place >> 8), count});
}

}  // namespace stallscope::probes
