// SPDX-License-Identifier: Apache-2.0
// Keeps the cycles of a sampling handler at a share of the run's: when the handler leaves, it reads
// how many events and cycles passed since it left last, and sets the period with which the budget
// would be met if the run went on like that, corrected by what was spent too much or too little.
#pragma once

#include <algorithm>
#include <cstdint>

namespace stallscope::probes {

class Budget {
 public:
  static constexpr std::uint64_t kFirstPeriod = 64;  // until anything is known

  // `share`: of the run's cycles, those of the handler included; between 0 and 1.
  explicit Budget(double share) : per_cycle_(share / (1 - share)) {}

  // After the handler ran for the `interrupts`-th time (at least 1); all counts from the beginning.
  std::uint64_t next_period(std::uint64_t events, std::uint64_t program_cycles,
                            std::uint64_t handler_cycles, std::uint64_t interrupts) {
    const auto passed = static_cast<double>(events - events_);
    const auto cycles = static_cast<double>(program_cycles - cycles_);
    events_ = events;
    cycles_ = program_cycles;
    slow_.add(passed, cycles, kSlow);
    fast_.add(passed, cycles, kFast);
    // A sudden flood of events is believed at once, so that it cannot spend the budget of minutes;
    // a sudden drought only as far as it weighs in the long run.
    const double rate = std::max(slow_.rate(), fast_.rate() / 2);
    const double cost = static_cast<double>(handler_cycles) / static_cast<double>(interrupts);
    const double left =
        per_cycle_ * static_cast<double>(program_cycles) - static_cast<double>(handler_cycles);
    const double correction = corrected(left / cost, static_cast<double>(interrupts));
    const double period = cost * rate / (per_cycle_ * correction);
    return static_cast<std::uint64_t>(std::clamp(period + 0.5, 1.0, kLongest));
  }

 private:
  static constexpr double kSlow = 0.95, kFast = 0.5;  // what one interrupt leaves of those before
  static constexpr double kPatience = 32;             // interrupts in which a difference is made up
  static constexpr double kHaste = 4;                 // what was saved is spent so much faster
  static constexpr double kLongest = 1e15;

  struct Recent {
    double events = 0, cycles = 0;
    void add(double more_events, double more_cycles, double keep) {
      events = events * keep + more_events;
      cycles = cycles * keep + more_cycles;
    }
    double rate() const { return events / std::max(cycles, 1.0); }
  };

  // How much faster than the budget to go on, with so many interrupts left over (or overdrawn).
  static double corrected(double left, double interrupts) {
    const double patience = std::clamp(interrupts / 4, 1.0, kPatience);
    return left < 0 ? 1 / (1 - left / patience) : std::min(1 + left / patience, kHaste);
  }

  double per_cycle_;  // handler cycles for each of the program's
  std::uint64_t events_ = 0;
  std::uint64_t cycles_ = 0;
  Recent slow_, fast_;
};

}  // namespace stallscope::probes
