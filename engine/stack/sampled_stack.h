// SPDX-License-Identifier: Apache-2.0
// The LRU curve from a sample of the pages: SHARDS (Waldspurger et al., FAST 2015). A page is in
// the sample when its hash is below a threshold, so all of its references are seen or none;
// distances among sampled pages, divided by the rate, estimate distances among all.
//
// With a fixed rate the threshold stays. With a fixed size, at most so many pages are sampled: one
// page too many, and the threshold sinks to the largest hash, whose pages are dropped. A reference
// counts for 1/rate references, at the rate when it came. What hot pages in the sample, or missing
// in it, make the sum differ from the true number of references is put right at distance zero, as
// the paper's correction does: that is where the references of hot pages are.
#pragma once

#include <cstdint>
#include <queue>
#include <span>
#include <utility>
#include <vector>

#include "base/result.h"
#include "stack/page_table.h"
#include "stack/recency_bits.h"

namespace stallscope::stack {

class SampledStack {
 public:
  // 0 < rate <= 1; most_pages 0: a fixed rate.
  static Result<SampledStack> make(double rate, std::uint64_t most_pages, std::uint32_t seed);

  void append(std::span<const std::uint64_t> pages);

  std::uint64_t references() const { return references_; }
  std::uint64_t sampled() const { return sampled_; }     // references
  std::uint64_t pages() const { return table_.size(); }  // in the sample now
  double rate() const;                                   // now
  double distinct() const { return cold_; }              // estimate of all pages
  std::uint64_t bytes() const;

  // Estimated misses at sizes 0, step, 2 step, ...; the last ones are the first references only.
  struct Curve {
    std::uint64_t step = 1;
    std::vector<double> misses;
  };
  Curve curve() const;

 private:
  SampledStack(std::uint64_t threshold, std::uint64_t most_pages, std::uint32_t seed);
  void access(std::uint64_t page, std::uint32_t hash);
  void lower();
  void count(double distance, double weight);
  void renumber();

  static constexpr std::size_t kBuckets = 1u << 16;

  PageTable table_;
  RecencyBits bits_{1u << 16};
  std::vector<double> buckets_ = std::vector<double>(kBuckets);
  unsigned shift_ = 0;  // a bucket is 2^shift_ pages wide
  std::priority_queue<std::pair<std::uint32_t, std::uint64_t>> hashes_;  // fixed size: hash, page
  std::vector<std::uint64_t> chosen_;
  std::uint64_t threshold_;  // of 2^32
  std::uint64_t most_pages_;
  std::uint32_t seed_;
  std::uint64_t references_ = 0, sampled_ = 0;
  double cold_ = 0, weights_ = 0;
};

}  // namespace stallscope::stack
