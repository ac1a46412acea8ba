// SPDX-License-Identifier: Apache-2.0
#include "stack/distance_counts.h"

#include <algorithm>

namespace stallscope::stack {

std::vector<std::uint64_t> curve_of(std::span<const std::uint64_t> distances, std::uint64_t cold) {
  std::vector<std::uint64_t> misses(distances.size() + 1);
  std::uint64_t sum = cold;
  for (std::size_t size = distances.size() + 1; size-- > 0;) {
    if (size < distances.size()) sum += distances[size];
    misses[size] = sum;
  }
  return misses;
}

void DistanceCounts::make_room(std::uint64_t pages) {
  LargeArray<std::uint32_t> larger(std::bit_ceil(pages));
  std::copy(counts_.begin(), counts_.end(), larger.begin());
  counts_ = std::move(larger);
}

void DistanceCounts::fold(std::uint64_t references) {
  epoch_counts_.resize(counts_.size());
  for (std::size_t i = 0; i < epoch_counts_.size(); ++i) epoch_counts_[i] += counts_[i];
  std::fill(counts_.begin(), counts_.end(), 0);
  unfolded_ = references;
}

std::vector<std::uint64_t> DistanceCounts::epoch_counts() const {
  std::vector<std::uint64_t> counts(counts_.begin(), counts_.begin() + pages_);
  for (std::size_t i = 0; i < std::min(counts.size(), epoch_counts_.size()); ++i)
    counts[i] += epoch_counts_[i];
  return counts;
}

std::uint64_t DistanceCounts::bytes() const {
  return counts_.size() * 4 + (epoch_counts_.capacity() + total_counts_.capacity()) * 8;
}

std::vector<std::uint64_t> DistanceCounts::curve() const {
  std::vector<std::uint64_t> counts = epoch_counts();
  for (std::size_t i = 0; i < total_counts_.size(); ++i) counts[i] += total_counts_[i];
  return curve_of(counts, total_.cold + epoch_.cold);
}

std::vector<std::uint64_t> DistanceCounts::epoch_curve() const {
  return curve_of(epoch_counts(), epoch_.cold);
}

void DistanceCounts::end_epoch() {
  const std::vector<std::uint64_t> counts = epoch_counts();
  Ended ended{{}, epoch_.cold, pages_};
  total_counts_.resize(counts.size());
  for (std::size_t i = 0; i < counts.size(); ++i) {
    if (counts[i] == 0) continue;
    total_counts_[i] += counts[i];
    if (history_ > 0) ended.distances.emplace_back(static_cast<std::uint32_t>(i), counts[i]);
  }
  std::fill(counts_.begin(), counts_.end(), 0);
  epoch_counts_ = {};
  unfolded_ = 0;
  total_.references += epoch_.references;
  total_.cold += epoch_.cold;
  epoch_ = {};
  ++epochs_;
  if (history_ == 0) return;
  if (ended_.size() == history_) ended_.pop_front();
  ended_.push_back(std::move(ended));
}

Result<std::vector<std::uint64_t>> DistanceCounts::ended_curve(std::uint64_t back) const {
  if (back >= ended_.size())
    return Error{
        "there is no epoch " + std::to_string(back) + " back",
        std::to_string(ended_.size()) + " are kept of " + std::to_string(epochs_) + " that ended",
        "keep a longer history, or ask for a later epoch"};
  const Ended& ended = ended_[ended_.size() - 1 - back];
  std::vector<std::uint64_t> counts(ended.pages);
  for (const auto& [distance, count] : ended.distances) counts[distance] = count;
  return curve_of(counts, ended.cold);
}

}  // namespace stallscope::stack
