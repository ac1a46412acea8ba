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
  Misses(Buckets& buckets, unsigned levels, bool evictions)
      : buckets_(buckets), levels_(levels), evictions_(evictions) {}

  // An access by `operation` to something in `bucket` that missed the levels in `missed` (a bit
  // each). The cycles of data and of translation go to the last level of each that was missed.
  void miss(BucketId bucket, std::uint32_t operation, std::uint32_t missed) {
    Counts& counts = counts_.at(bucket, operation);
    for (; missed; missed &= missed - 1) ++counts.misses[std::countr_zero(missed)];
  }
  void wait(BucketId bucket, std::uint32_t operation, unsigned level, std::uint32_t cycles) {
    counts_.at(bucket, operation).latency[level] += cycles;
  }
  BucketId bucket_of(std::uint64_t address) { return buckets_.find(address); }
  // A line of `victim` was thrown out of `level` for one of `culprit`.
  void evict(unsigned level, BucketId victim, BucketId culprit, std::uint32_t operation);
  BucketId bucket_of_line(std::uint64_t line, std::uint32_t size) {
    return buckets_.find_line(line, size);
  }

  bool wants_evictions() const { return evictions_; }
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
  unsigned levels_;
  bool evictions_;
  Tally<Counts> counts_;
  std::uint32_t region_ = 0;
  std::unordered_map<Eviction, std::uint64_t, Hash> evicted_;
};

}  // namespace stallscope::probes
