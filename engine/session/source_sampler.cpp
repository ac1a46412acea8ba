// SPDX-License-Identifier: Apache-2.0
#include "session/source_sampler.h"

#include <algorithm>

namespace stallscope::session {
namespace {

// Wanted misses after which the period is chosen anew, where it adapts.
constexpr std::uint64_t kWindow = 1000;
constexpr std::uint64_t kFirstPeriod = 10;

std::uint32_t bit_of(machine::Source source) { return 1u << static_cast<unsigned>(source); }

}  // namespace

SourceSampler::SourceSampler(const SourceSampling& options, std::uint64_t seed)
    : options_(options), random_(seed), period_(options.period ? options.period : kFirstPeriod) {
  if (options_.criteria.empty())
    options_.criteria = {bit_of(machine::Source::remote_cache) |
                         bit_of(machine::Source::remote_outer)};
}

bool SourceSampler::wants(std::uint64_t now, machine::Source source) {
  const std::size_t turn =
      options_.criteria.size() == 1 ? 0 : now / options_.slice % options_.criteria.size();
  return options_.criteria[turn] & bit_of(source);
}

// Up to a quarter more or less, so that nothing in the program keeps step with it.
std::uint64_t SourceSampler::next_period() {
  const std::uint64_t spread = period_ / 4;
  return spread ? period_ - spread + random_.next() % (2 * spread + 1) : period_;
}

void SourceSampler::adapt(std::uint64_t now) {
  if (options_.period || ++window_misses_ < kWindow) return;
  const std::uint64_t wanted =
      std::max<std::uint64_t>(1, (now - window_start_) / options_.interval);
  period_ = std::clamp<std::uint64_t>(window_misses_ / wanted, 1, 1'000'000);
  window_start_ = now;
  window_misses_ = 0;
}

void SourceSampler::read(Counter& counter, std::uint64_t now, std::uint32_t thread) {
  table_.append({now, thread, counter.line, static_cast<std::uint8_t>(counter.wanted)});
  counter.pending = false;
}

void SourceSampler::miss(std::uint64_t now, std::uint32_t thread, std::uint64_t line_address,
                         machine::Source source) {
  Counter& counter = *counters_.try_emplace(thread).first;
  if (counter.pending && now > counter.until) read(counter, counter.until, thread);
  const bool wanted = wants(now, source);
  if (!options_.exact || wanted) {
    counter.line = line_address;
    counter.wanted = wanted;
  }
  if (!wanted) return;
  adapt(now);
  if (!counter.begun) {
    counter.begun = true;
    counter.left = 1 + random_.next() % period_;
  }
  if (--counter.left) return;
  counter.left = next_period();
  if (options_.exact) return read(counter, now, thread);
  if (counter.pending) return;
  counter.pending = true;
  counter.until = now + options_.skid;
}

void SourceSampler::settle(std::uint32_t thread) {
  Counter* const counter = counters_.find(thread);
  if (counter && counter->pending) read(*counter, counter->until, thread);
}

}  // namespace stallscope::session
