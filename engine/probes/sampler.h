// SPDX-License-Identifier: Apache-2.0
// The sampling side of a PMU: a counter of one event that raises an interrupt about every `period`
// events, the distance varied by a seeded random amount so that it never falls into step with the
// program. When no period is given, it starts at one event in one; each time there are more than
// twice the samples wanted, every other one is dropped by chance and the period doubles, so that
// the samples are spread evenly over the whole run whatever its length.
//
// When somebody else sets the period while the run goes on (a budget), each event is drawn by
// itself with the chance of one in `period`. Distances drawn beforehand would not do: one that was
// drawn long and reaches into a part of the run with another period would make that part weigh too
// much. With one chance an event, and samples weighted by the period in force, sums are unbiased
// whatever the period depends on, as long as that is the past.
#pragma once

#include <cstdint>
#include <vector>

#include "probes/object_map.h"
#include "probes/random.h"

namespace stallscope::probes {

inline constexpr std::uint8_t kServedByMemory = 0xff;

constexpr std::uint8_t served_by(std::uint32_t level, unsigned caches) {
  return level < caches ? static_cast<std::uint8_t>(level) : kServedByMemory;
}

// What the handler finds in the PMU's registers.
struct Sample {
  BucketId bucket;            // kNoBucket for an instruction miss
  BucketId victim;            // of the line that the miss threw out; kNoBucket when a way was empty
  std::uint32_t operation;    // of an instruction miss: the instruction
  std::uint32_t latency;      // cycles
  std::uint64_t address = 0;  // that missed
  std::uint32_t block = 0xffffffff;       // of an instruction miss
  std::uint8_t served = kServedByMemory;  // number of the cache that had it
  std::uint64_t weight = 0;               // events that it stands for; set by the sampler
  std::uint32_t region = 0;               // set by the sampler
};

class Sampler {
 public:
  // `period` 0: chosen so that a run gives at least `wanted` samples, if it has as many events.
  Sampler(std::uint64_t period, std::uint64_t wanted, std::uint64_t seed)
      : adaptive_(period == 0), period_(period ? period : 1), wanted_(wanted), random_(seed) {
    rearm();
  }

  // Whether this event raises the interrupt.
  bool count() {
    ++events_;
    return by_chance_ ? random_.next() <= chance_ : --left_ == 0;
  }
  // For those who count events in advance, of a counter that goes by distances: how many more raise
  // the interrupt, and some that do not.
  std::uint64_t left() const { return left_; }
  void skip(std::uint64_t events) {
    events_ += events;
    left_ -= events;
  }
  // The handler reads its registers, and the counter starts again.
  void take(Sample sample) {
    sample.weight = period_;
    sample.region = region_;
    last_ = sample;
    samples_.push_back(sample);
    if (adaptive_ && samples_.size() > 2 * wanted_) thin();
    if (!by_chance_) rearm();
  }
  // From now on each event with this chance, at least 1.
  void set_period(std::uint64_t period) {
    adaptive_ = false;
    by_chance_ = true;
    period_ = period;
    chance_ = ~std::uint64_t{0} / period;
  }

  // What follows happens in this region.
  void enter(std::uint32_t region) { region_ = region; }

  const std::vector<Sample>& samples() const { return samples_; }
  const Sample& last() const { return last_; }      // taken, also when it was dropped since
  std::uint64_t period() const { return period_; }  // on average, at the end of the run
  std::uint64_t events() const { return events_; }

 private:
  // Samples from before a thinning and after it must weigh the same.
  void rearm() { left_ = random_.around(period_); }
  void thin() {
    std::size_t kept = 0;
    for (const Sample& sample : samples_)
      if (random_.next() & 1) samples_[kept++] = sample;
    samples_.resize(kept);
    period_ *= 2;
    for (Sample& sample : samples_) sample.weight = period_;
  }

  bool adaptive_;
  bool by_chance_ = false;
  std::uint64_t period_;
  std::uint64_t wanted_;
  std::uint64_t chance_ = 0;  // of 2^64
  Random random_;
  std::uint64_t left_ = 1;
  std::uint64_t events_ = 0;
  std::uint32_t region_ = 0;
  Sample last_{};
  std::vector<Sample> samples_;
};

}  // namespace stallscope::probes
