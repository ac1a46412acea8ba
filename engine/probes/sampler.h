// SPDX-License-Identifier: Apache-2.0
// The sampling side of a PMU: a counter of one event that raises an interrupt about every `period`
// events, the distance varied by a seeded random amount so that it never falls into step with the
// program. When no period is given, it starts at one event in one; each time there are more than
// twice the samples wanted, every other one is dropped by chance and the period doubles, so that
// the samples are spread evenly over the whole run whatever its length.
#pragma once

#include <cstdint>
#include <vector>

#include "probes/object_map.h"

namespace stallscope::probes {

struct Sample {
  BucketId bucket;
  BucketId victim;  // of the line that the miss threw out; kNoBucket when a way was empty
  std::uint32_t operation;
  std::uint32_t latency;  // cycles
  std::uint32_t region = 0;
};

class Sampler {
 public:
  // `period` 0: chosen so that a run gives at least `wanted` samples, if it has as many events.
  Sampler(std::uint64_t period, std::uint64_t wanted, std::uint64_t seed)
      : adaptive_(period == 0), period_(period ? period : 1), wanted_(wanted), state_(seed) {
    rearm();
  }

  // Whether this event raises the interrupt.
  bool count() {
    ++events_;
    return --left_ == 0;
  }
  // The handler reads its registers, and the counter starts again.
  void take(const Sample& sample) {
    samples_.push_back(sample);
    samples_.back().region = region_;
    if (adaptive_ && samples_.size() > 2 * wanted_) thin();
    rearm();
  }

  // What follows happens in this region.
  void enter(std::uint32_t region) { region_ = region; }

  const std::vector<Sample>& samples() const { return samples_; }
  std::uint64_t period() const { return period_; }  // on average, at the end of the run
  std::uint64_t events() const { return events_; }

 private:
  std::uint64_t random() {
    std::uint64_t z = state_ += 0x9e3779b97f4a7c15ULL;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
    return z ^ (z >> 31);
  }
  // Evenly from 1 to two periods less one, so exactly one period on average: samples from before a
  // thinning and after it must weigh the same.
  void rearm() { left_ = 1 + random() % (2 * period_ - 1); }
  void thin() {
    std::size_t kept = 0;
    for (const Sample& sample : samples_)
      if (random() & 1) samples_[kept++] = sample;
    samples_.resize(kept);
    period_ *= 2;
  }

  bool adaptive_;
  std::uint64_t period_;
  std::uint64_t wanted_;
  std::uint64_t state_;
  std::uint64_t left_ = 1;
  std::uint64_t events_ = 0;
  std::uint32_t region_ = 0;
  std::vector<Sample> samples_;
};

}  // namespace stallscope::probes
