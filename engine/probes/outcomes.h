// SPDX-License-Identifier: Apache-2.0
// The probe of the fast way: counts, by region, stat bucket and memory operation, how far out
// accesses went, and remembers of each operation where its last object lies, so that most misses
// are counted without asking whose they are.
#pragma once

#include <cstdint>
#include <vector>

#include "machine/batch.h"
#include "probes/buckets.h"
#include "probes/tally.h"

namespace stallscope::probes {

class Outcomes {
 public:
  explicit Outcomes(Buckets& buckets) : buckets_(buckets) {}

  // Operations below this number may come.
  void grow(std::size_t operations) {
    if (memos_.size() < operations) memos_.resize(operations);
  }
  void count(std::uint64_t address, std::uint32_t operation, machine::Outcome outcome) {
    const Memo& memo = memos_[operation];
    const bool known = address - memo.start < memo.size && memo.stamp == buckets_.stamp(memo.slot);
    if (!known) [[unlikely]]
      learn(address, operation);
    ++memo.counts->times[outcome];
  }
  void enter(std::uint32_t region) {
    counts_.enter(region);
    memos_.assign(memos_.size(), Memo{});
  }
  // visit(region, bucket, operation, outcome, times)
  template <typename Visit>
  void for_each(Visit&& visit) const {
    counts_.for_each(
        [&](std::uint32_t region, BucketId bucket, std::uint32_t operation, const Counts& counts) {
          for (machine::Outcome i = 0; i < machine::kOutcomes; ++i)
            if (counts.times[i]) visit(region, bucket, operation, i, counts.times[i]);
        });
  }

 private:
  struct Counts {
    std::uint64_t times[machine::kOutcomes] = {};
  };
  struct Memo {
    std::uint64_t start = 0;
    std::uint64_t size = 0;
    std::uint32_t stamp = 0;
    std::uint32_t slot = 0;
    Counts* counts = nullptr;
  };

  [[gnu::noinline]] void learn(std::uint64_t address, std::uint32_t operation) {
    const Buckets::Place place = buckets_.locate(address);
    memos_[operation] = {place.start, place.size, buckets_.stamp(place.slot), place.slot,
                         &counts_.at(place.bucket, operation)};
  }

  Buckets& buckets_;
  Tally<Counts> counts_;
  std::vector<Memo> memos_;  // by operation
};

}  // namespace stallscope::probes
