// SPDX-License-Identifier: Apache-2.0
#include "probes/misses.h"

#include <algorithm>
#include <tuple>

namespace stallscope::probes {

void Misses::evict(unsigned level, BucketId victim, BucketId culprit, std::uint32_t operation) {
  const std::uint64_t pair = std::uint64_t{victim} << 32 | culprit;
  ++evicted_[{pair, std::uint64_t{region_} << 48 | std::uint64_t{operation} << 16 | level}];
}

void Misses::fill(MissTable& table) const {
  counts_.for_each(
      [&](std::uint32_t region, BucketId bucket, std::uint32_t operation, const Counts& counts) {
        for (unsigned level = 0; level < levels_; ++level)
          if (counts.misses[level])
            table.append({static_cast<std::uint8_t>(level), region, bucket, operation,
                          counts.misses[level], counts.latency[level]});
      });
}

void Misses::fill(EvictionTable& table) const {
  std::vector<std::pair<Eviction, std::uint64_t>> rows(evicted_.begin(), evicted_.end());
  std::sort(rows.begin(), rows.end(), [](const auto& a, const auto& b) {
    return std::tie(a.first.pair, a.first.place) < std::tie(b.first.pair, b.first.place);
  });
  for (const auto& [key, count] : rows)
    table.append({static_cast<std::uint8_t>(key.place & 0xffff),
                  static_cast<std::uint32_t>(key.place >> 48),
                  static_cast<std::uint32_t>(key.pair >> 32), static_cast<std::uint32_t>(key.pair),
                  static_cast<std::uint32_t>(key.place >> 16), count});
}

}  // namespace stallscope::probes
