// SPDX-License-Identifier: Apache-2.0
// The probe that counts misses by region, stat bucket and memory operation, and who evicted whom.
// Called once for each access that missed the first level.
#pragma once

#include <bit>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "probes/buckets.h"
#include "probes/tally.h"
#include "stallscope_tables.h"

namespace stallscope::probes {

inline constexpr unsigned kMaxLevels = 12;  // caches and TLBs of one machine

class Misses {
 public:
  Misses(Buckets& buckets, unsigned caches, unsigned tlbs)
      : buckets_(buckets), caches_(caches), levels_(caches + tlbs) {}

  // Accesses by `operation` to something in `bucket` that missed the levels in `missed` (a bit
  // each; TLBs behind the caches), and waited for data and for its translation, in cycles each.
  // Those go to the last cache and to the last TLB that were missed.
  void add(BucketId bucket, std::uint32_t operation, std::uint32_t missed, std::uint32_t latency,
           std::uint32_t translation, std::uint64_t times = 1) {
    Counts& counts = counts_.at(bucket, operation);
    for (std::uint32_t left = missed; left; left &= left - 1)
      counts.misses[std::countr_zero(left)] += times;
    if (const std::uint32_t of_caches = missed & ((1u << caches_) - 1); of_caches)
      counts.latency[std::bit_width(of_caches) - 1] += times * latency;
    if (const std::uint32_t of_tlbs = missed >> caches_; of_tlbs)
      counts.latency[caches_ + std::bit_width(of_tlbs) - 1] += times * translation;
  }
  BucketId bucket_of(std::uint64_t address) { return buckets_.find(address); }
  // A line of `victim` was thrown out of `level` for one of `culprit`.
  void evict(unsigned level, BucketId victim, BucketId culprit, std::uint32_t operation);
  BucketId bucket_of_line(std::uint64_t line, std::uint32_t size) {
    return buckets_.find_line(line, size);
  }

  // What follows happens in this region, one of at most 1 << 16.
  void enter(std::uint32_t region) {
    counts_.enter(region);
    region_ = region;
  }
  void fill(MissTable& table) const;
  void fill(EvictionTable& table) const;

 private:
  struct Counts {
    std::uint64_t misses[kMaxLevels] = {};
    std::uint64_t latency[kMaxLevels] = {};
  };
  struct Eviction {
    std::uint64_t pair;   // victim in the upper half, culprit in the lower
    std::uint64_t place;  // region, operation and level: 16, 32 and 16 bits
    bool operator==(const Eviction&) const = default;
  };
  struct Hash {
    std::size_t operator()(const Eviction& e) const {
      return (e.pair * 0x9e3779b97f4a7c15ULL) ^ (e.place * 0xff51afd7ed558ccdULL);
    }
  };

  Buckets& buckets_;
  unsigned caches_;
  unsigned levels_;
  Tally<Counts> counts_;
  std::uint32_t region_ = 0;
  std::unordered_map<Eviction, std::uint64_t, Hash> evicted_;
};

}  // namespace stallscope::probes
