// SPDX-License-Identifier: Apache-2.0
// The probe that counts misses by stat bucket and by memory operation, and who evicted whom.
// Called once for each access that missed the first level, so look-ups that repeat are remembered
// by operation.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "probes/buckets.h"
#include "stallscope_tables.h"

namespace stallscope::probes {

inline constexpr unsigned kMaxLevels = 8;

class Misses {
 public:
  Misses(Buckets& buckets, unsigned levels, bool evictions)
      : buckets_(buckets), levels_(levels), evictions_(evictions) {}

  // An access by `operation` that missed the first `missed` levels and took `latency` cycles.
  BucketId miss(std::uint64_t address, std::uint32_t operation, unsigned missed,
                std::uint32_t latency) {
    const BucketId bucket = buckets_.find(address);
    Counts& counts = counts_of(bucket, operation);
    for (unsigned level = 0; level < missed; ++level) ++counts.misses[level];
    counts.latency[missed - 1] += latency;
    return bucket;
  }
  // A line of the bucket that `victim` lies in was thrown out of `level` for one of `culprit`.
  void evict(unsigned level, std::uint64_t victim, BucketId culprit, std::uint32_t operation);

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
