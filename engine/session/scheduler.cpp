// SPDX-License-Identifier: Apache-2.0
#include "session/scheduler.h"

#include <algorithm>
#include <numeric>

#include "probes/random.h"

namespace stallscope::session {

Scheduler::Scheduler(const machine::ChipsConfig& chips,
                     const std::vector<std::pair<std::uint32_t, std::uint32_t>>& given,
                     std::uint64_t seed, std::uint32_t first)
    : chips_(chips), given_(given), seed_(seed), first_(first), load_(chips.contexts()) {}

std::uint32_t Scheduler::within(std::uint32_t chip, std::uint32_t n) const {
  const std::uint32_t core = n % chips_.cores, thread = n / chips_.cores % chips_.threads;
  return (chip * chips_.cores + core) * chips_.threads + thread;
}

std::uint32_t Scheduler::spread(std::uint32_t n) const {
  const std::uint32_t at = (first_ + n) % chips_.contexts();
  return within(at % chips_.chips, at / chips_.chips);
}

std::uint32_t Scheduler::least_loaded() const {
  std::uint32_t best = spread(0);
  for (std::uint32_t n = 1; n < chips_.contexts(); ++n)
    if (load_[spread(n)] < load_[best]) best = spread(n);
  return best;
}

std::uint32_t Scheduler::context_of(std::uint32_t thread) {
  for (const Placed& one : threads_)
    if (one.thread == thread) return one.context;
  std::uint32_t context = machine::kMostContexts;
  for (const auto& [who, where] : given_)
    if (who == thread) context = where;
  if (context >= chips_.contexts()) context = least_loaded();
  ++load_[context];
  ++alive_;
  threads_.push_back({thread, context, true});
  return context;
}

void Scheduler::end(std::uint32_t thread) {
  for (Placed& one : threads_)
    if (one.thread == thread && one.alive) {
      one.alive = false;
      --load_[one.context];
      --alive_;
    }
}

// A thread's number in a shuffled order, written to the base of the number of chips: one digit
// after the other says where it goes. Two numbers differ in some digit, so every two threads are
// apart in one of the stretches; then the order is shuffled again.
void Scheduler::rotate() {
  std::vector<std::uint32_t> alive;
  for (std::uint32_t i = 0; i < threads_.size(); ++i)
    if (threads_[i].alive) alive.push_back(i);
  if (alive.empty() || chips_.chips < 2) return;
  std::uint32_t digits = 1;
  for (std::uint64_t reach = chips_.chips; reach < alive.size(); reach *= chips_.chips) ++digits;
  const std::uint32_t round = stretch_ / digits, digit = stretch_ % digits;
  ++stretch_;
  probes::Random random(seed_ * 1'000'003 + round);
  for (std::size_t i = alive.size(); i > 1; --i) std::swap(alive[i - 1], alive[random.next() % i]);
  std::uint32_t power = 1;
  for (std::uint32_t i = 0; i < digit; ++i) power *= chips_.chips;
  std::vector<std::uint32_t> filled(chips_.chips);
  std::fill(load_.begin(), load_.end(), 0);
  for (std::uint32_t number = 0; number < alive.size(); ++number) {
    const std::uint32_t chip = number / power % chips_.chips;
    Placed& one = threads_[alive[number]];
    one.context = within(chip, filled[chip]++);
    ++load_[one.context];
  }
}

}  // namespace stallscope::session
