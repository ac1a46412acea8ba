// SPDX-License-Identifier: Apache-2.0
#include "stack/sampled_stack.h"

#include <algorithm>
#include <cmath>
#include <string>

namespace stallscope::stack {
namespace {

constexpr double kAll = 4294967296.0;  // 2^32
constexpr std::size_t kPiece = 4096;

// Programs use runs of pages. Within 4,096 of them multiples of the golden ratio spread the sample
// evenly, so that each run has its share almost to the page; where the first one falls is random
// from run to run. Against hashes that scatter everything, the curve of a loop errs by a quarter.
// In 32-bit steps, eight or sixteen at once. Unlike the table's hash, or the sample would crowd it.
STALLSCOPE_INLINE std::uint32_t hash_of(std::uint64_t page, std::uint32_t seed) {
  const std::uint64_t run = page >> 12;
  std::uint32_t x = static_cast<std::uint32_t>(run);
  x ^= static_cast<std::uint32_t>(run >> 32) * 0x85ebca6bu;
  x = (x ^ x >> 16) * 0x21f0aaadu + seed * 0x2545f491u;
  x = (x ^ x >> 15) * 0x735a2d97u;
  return (x ^ x >> 15) + static_cast<std::uint32_t>(page) * 0x9e3779b9u;
}

// The pages whose hash is below the threshold, in order. Returns how many; `chosen` has room for
// all.
STALLSCOPE_INLINE std::size_t choose(const std::uint64_t* pages, std::size_t n,
                                     std::uint64_t threshold, std::uint32_t seed,
                                     std::uint64_t* chosen) {
  std::uint32_t hashes[kPiece];
  for (std::size_t i = 0; i < n; ++i) hashes[i] = hash_of(pages[i], seed);
  std::size_t found = 0;
  for (std::size_t i = 0; i < n; ++i) {
    chosen[found] = pages[i];
    found += hashes[i] < threshold;
  }
  return found;
}

using Choose = std::size_t (*)(const std::uint64_t*, std::size_t, std::uint64_t, std::uint32_t,
                               std::uint64_t*);
#if defined(__x86_64__)
[[gnu::target("avx512f,avx512bw,avx512vl,avx512dq")]] std::size_t choose_avx512(
    const std::uint64_t* pages, std::size_t n, std::uint64_t threshold, std::uint32_t seed,
    std::uint64_t* chosen) {
  return choose(pages, n, threshold, seed, chosen);
}
[[gnu::target("avx2")]] std::size_t choose_avx2(const std::uint64_t* pages, std::size_t n,
                                                std::uint64_t threshold, std::uint32_t seed,
                                                std::uint64_t* chosen) {
  return choose(pages, n, threshold, seed, chosen);
}
#endif
std::size_t choose_plain(const std::uint64_t* pages, std::size_t n, std::uint64_t threshold,
                         std::uint32_t seed, std::uint64_t* chosen) {
  return choose(pages, n, threshold, seed, chosen);
}

Choose best_choose() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
      __builtin_cpu_supports("avx512dq"))
    return choose_avx512;
  if (__builtin_cpu_supports("avx2")) return choose_avx2;
#endif
  return choose_plain;
}

}  // namespace

Result<SampledStack> SampledStack::make(double rate, std::uint64_t most_pages, std::uint32_t seed) {
  const double threshold = std::round(rate * kAll);
  if (!(rate <= 1) || !(threshold >= 1))
    return Error{"a sampling rate of " + std::to_string(rate), "it must be above 0 and at most 1",
                 "0.01 takes one page in a hundred"};
  return SampledStack(static_cast<std::uint64_t>(threshold), most_pages, seed);
}

SampledStack::SampledStack(std::uint64_t threshold, std::uint64_t most_pages, std::uint32_t seed)
    : chosen_(kPiece), threshold_(threshold), most_pages_(most_pages), seed_(seed) {}

double SampledStack::rate() const { return static_cast<double>(threshold_) / kAll; }

std::uint64_t SampledStack::bytes() const {
  return table_.bytes() + bits_.bytes() + buckets_.size() * 8 + hashes_.size() * 16 +
         chosen_.size() * 8;
}

void SampledStack::append(std::span<const std::uint64_t> pages) {
  static const Choose choose_best = best_choose();
  for (std::size_t from = 0; from < pages.size(); from += kPiece) {
    const std::size_t n = std::min(kPiece, pages.size() - from);
    const std::size_t found =
        choose_best(pages.data() + from, n, threshold_, seed_, chosen_.data());
    for (std::size_t i = 0; i < std::min<std::size_t>(found, 16); ++i) table_.prefetch(chosen_[i]);
    for (std::size_t i = 0; i < found; ++i) {
      if (i + 16 < found) table_.prefetch(chosen_[i + 16]);
      access(chosen_[i], most_pages_ ? hash_of(chosen_[i], seed_) : 0);
    }
    references_ += n;
  }
}

void SampledStack::access(std::uint64_t page, std::uint32_t hash) {
  if (hash >= threshold_) return;  // it has sunk since the page was chosen
  if (bits_.full()) renumber();
  const double weight = kAll / static_cast<double>(threshold_);
  ++sampled_;
  weights_ += weight;
  PageTable::Entry* const entry = table_.find_or_add(page);
  if (entry->value == 0) {
    entry->value = bits_.set_next();
    cold_ += weight;
    if (most_pages_ == 0) return;
    hashes_.emplace(hash, page);
    if (table_.size() > most_pages_) lower();
    return;
  }
  // Sampled distance d stands for true ones around (d + 1/2) / rate.
  count((bits_.after(entry->value) + 0.5) * weight, weight);
  bits_.clear(entry->value);
  entry->value = bits_.set_next();
}

void SampledStack::lower() {
  threshold_ = hashes_.top().first;
  while (!hashes_.empty() && hashes_.top().first >= threshold_) {
    PageTable::Entry* const entry = table_.find(hashes_.top().second);
    bits_.clear(entry->value);
    table_.remove(entry);
    hashes_.pop();
  }
}

void SampledStack::count(double distance, double weight) {
  while (static_cast<std::uint64_t>(distance) >> shift_ >= kBuckets) {
    for (std::size_t i = 0; i < kBuckets / 2; ++i)
      buckets_[i] = buckets_[2 * i] + buckets_[2 * i + 1];
    std::fill(buckets_.begin() + kBuckets / 2, buckets_.end(), 0);
    ++shift_;
  }
  buckets_[static_cast<std::uint64_t>(distance) >> shift_] += weight;
}

void SampledStack::renumber() {
  for (PageTable::Entry& entry : table_.entries())
    if (entry.value != 0) entry.value = bits_.renumbered(entry.value);
  bits_.renumber();
}

SampledStack::Curve SampledStack::curve() const {
  std::size_t used = kBuckets;
  while (used > 0 && buckets_[used - 1] == 0) --used;
  Curve curve{std::uint64_t{1} << shift_, std::vector<double>(used + 1)};
  double sum = cold_;
  for (std::size_t i = used + 1; i-- > 0;) {
    if (i < used) sum += buckets_[i];
    curve.misses[i] = sum;
  }
  // Without memory everything misses; only there does the correction show.
  curve.misses[0] = static_cast<double>(references_);
  return curve;
}

}  // namespace stallscope::stack
