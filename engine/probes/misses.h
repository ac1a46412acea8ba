// SPDX-License-Identifier: Apache-2.0
// The probe that counts misses by stat bucket and by memory operation, and who evicted whom.
// Called once for each access that missed the first level, so look-ups that repeat are remembered
// by operation.
#pragma once

#include <bit>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "probes/buckets.h"
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
    Counts& counts = counts_of(bucket, operation);
    for (; missed; missed &= missed - 1) ++counts.misses[std::countr_zero(missed)];
  }
  void wait(BucketId bucket, std::uint32_t operation, unsigned level, std::uint32_t cycles) {
    counts_of(bucket, operation).latency[level] += cycles;
  }
  BucketId bucket_of(std::uint64_t address) { return buckets_.find(address); }
  // A line of `victim` was thrown out of `level` for one of `culprit`.
  void evict(unsigned level, BucketId victim, BucketId culprit, std::uint32_t operation);
  BucketId bucket_of_line(std::uint64_t line, std::uint32_t size) {
    return buckets_.find_line(line, size);
  }

  bool wants_evictions() const { return evictions_; }
  void fill(MissTable& table) const;
  void fill(EvictionTable& table) const;

 private:
  struct Counts {
    std::uint64_t misses[kMaxLevels] = {};
    std::uint64_t latency[kMaxLevels] = {};
  };
  struct Recent {
    BucketId bucket = kNoBucket;
    std::uint32_t index = 0;
  };
  struct Eviction {
    std::uint64_t pair;   // victim in the upper half, culprit in the lower
    std::uint64_t place;  // operation and level
    bool operator==(const Eviction&) const = default;
  };
  struct Hash {
    std::size_t operator()(const Eviction& e) const {
      return (e.pair * 0x9e3779b97f4a7c15ULL) ^ (e.place * 0xff51afd7ed558ccdULL);
    }
  };

  Counts& counts_of(BucketId bucket, std::uint32_t operation) {
    if (operation < recent_.size() && recent_[operation].bucket == bucket)
      return counts_[recent_[operation].index];
    return find_counts(bucket, operation);
  }
  Counts& find_counts(BucketId bucket, std::uint32_t operation);

  Buckets& buckets_;
  unsigned levels_;
  bool evictions_;
  std::vector<Recent> recent_;  // by operation
  std::vector<Counts> counts_;
  std::unordered_map<std::uint64_t, std::uint32_t> index_;  // bucket and operation -> counts_
  std::unordered_map<Eviction, std::uint64_t, Hash> evicted_;
};

}  // namespace stallscope::probes
