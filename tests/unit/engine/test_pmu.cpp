// SPDX-License-Identifier: Apache-2.0
// The parts of a PMU that sample, each against what can be computed by hand.
#include <doctest.h>

#include <cmath>
#include <map>
#include <random>
#include <set>
#include <vector>

#include "probes/budget.h"
#include "probes/handler.h"
#include "probes/sampler.h"
#include "probes/tag_unit.h"

using namespace stallscope;
using namespace stallscope::probes;

namespace {

// Mean and standard error of what several seeds gave.
struct Spread {
  double sum = 0, squares = 0, count = 0;
  void add(double value) {
    sum += value;
    squares += value * value;
    ++count;
  }
  double mean() const { return sum / count; }
  double error() const { return std::sqrt((squares / count - mean() * mean()) / (count - 1)); }
};

// Tags in `loads` loads that follow each other, each of this latency.
std::uint64_t tags_in(TagUnit& unit, std::uint64_t& clock, std::uint64_t loads,
                      std::uint32_t latency) {
  const std::uint64_t before = unit.tags();
  for (std::uint64_t i = 0; i < loads; ++i, ++clock)
    if (unit.issue(clock)) unit.done(latency);
  return unit.tags() - before;
}

}  // namespace

TEST_CASE("a stream of like events gives events over period samples, as evenly as they are drawn") {
  constexpr double kEvents = 100'000, kPeriod = 50;
  Spread samples, weights;
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    Sampler sampler(50, 0, seed);
    for (int event = 0; event < kEvents; ++event)
      if (sampler.count()) sampler.take({0, kNoBucket, 0, 0});
    double weight = 0;
    for (const Sample& sample : sampler.samples()) weight += static_cast<double>(sample.weight);
    samples.add(static_cast<double>(sampler.samples().size()));
    weights.add(weight);
  }
  // Distances of 1 to 99, all as likely, have a third of their squared mean as variance.
  CHECK(samples.mean() == doctest::Approx(kEvents / kPeriod).epsilon(0.002));
  const double deviation = samples.error() * std::sqrt(samples.count - 1);
  CHECK(deviation == doctest::Approx(std::sqrt(kEvents / kPeriod / 3)).epsilon(0.3));
  CHECK(weights.mean() == doctest::Approx(kEvents).epsilon(0.002));
}

TEST_CASE("a period that follows the program does not bias weighted samples") {
  // Short phases of two kinds, with a period that is set when a sample was taken and depends on the
  // phase: what distances drawn beforehand would get wrong.
  Spread of_rare, of_dense;
  for (std::uint64_t seed = 1; seed <= 400; ++seed) {
    Sampler sampler(0, 0, seed);
    sampler.set_period(8);
    double rare = 0, dense = 0;
    for (int event = 0; event < 20'000; ++event) {
      const bool is_dense = event / 100 % 2;
      if (!sampler.count()) continue;
      sampler.take({is_dense, kNoBucket, 0, 0});
      (is_dense ? dense : rare) += static_cast<double>(sampler.last().weight);
      sampler.set_period(is_dense ? 60 : 3);
    }
    of_rare.add(rare);
    of_dense.add(dense);
  }
  CHECK(std::abs(of_rare.mean() - 10'000) < 4 * of_rare.error());
  CHECK(std::abs(of_dense.mean() - 10'000) < 4 * of_dense.error());
  CHECK(of_rare.error() < 100);  // so that the check above means something
  CHECK(of_dense.error() < 100);
}

TEST_CASE("thinning keeps what samples stand for") {
  Sampler sampler(0, 100, 3);
  for (int event = 0; event < 50'000; ++event)
    if (sampler.count()) sampler.take({0, kNoBucket, 0, 0});
  std::set<std::uint64_t> weights;
  for (const Sample& sample : sampler.samples()) weights.insert(sample.weight);
  CHECK(weights == std::set<std::uint64_t>{sampler.period()});
  CHECK(static_cast<double>(sampler.period() * sampler.samples().size()) ==
        doctest::Approx(50'000).epsilon(0.2));
}

TEST_CASE("a unit that follows one load at a time sees slow phases less: gap and latency decide") {
  constexpr std::uint64_t kLoads = 400'000;
  TagUnit unit(1);
  std::uint64_t clock = 0;
  for (const std::uint32_t latency : {1u, 4u, 20u, 100u, 300u}) {
    // From one tag to the next: the loads under its latency, of which the first is it itself, and
    // the gap.
    const double apart = latency - 1 + static_cast<double>(TagUnit::kGap);
    CAPTURE(latency);
    CHECK(static_cast<double>(tags_in(unit, clock, kLoads, latency)) ==
          doctest::Approx(kLoads / apart).epsilon(0.03));
  }
  CHECK(unit.loads() == 5 * kLoads);
}

TEST_CASE("what it tells of a mixture without order is not biased") {
  TagUnit unit(7);
  std::mt19937_64 random(5);
  double slow = 0;
  for (std::uint64_t clock = 0; clock < 3'000'000; ++clock) {
    const bool is_slow = random() % 10 < 3;
    if (!unit.issue(clock)) continue;
    unit.done(is_slow ? 200 : 10);
    slow += is_slow;
  }
  const auto tags = static_cast<double>(unit.tags());
  CHECK(slow / tags == doctest::Approx(0.3).epsilon(4 * std::sqrt(0.3 * 0.7 / tags) / 0.3));
}

TEST_CASE("the rest of a burst of slow loads is never told of") {
  // Bursts of 62 loads in the shadow of any of them. Free again, the unit lets up to 30 loads of
  // the next burst pass: only its first half can be tagged, each load of it as likely.
  TagUnit unit(7);
  std::vector<double> tagged(62);
  for (std::uint64_t burst = 0; burst < 100'000; ++burst)
    for (std::uint64_t load = 0; load < tagged.size(); ++load)
      if (unit.issue(burst * 1000 + load)) {
        unit.done(200);
        ++tagged[load];
      }
  for (std::size_t load = 0; load < tagged.size(); ++load) {
    CAPTURE(load);
    CHECK(tagged[load] == doctest::Approx(load < 31 ? 100'000 / 31.0 : 0).epsilon(0.1));
  }
}

TEST_CASE("a budget is kept, whatever the program does, and what is weighted by it is right") {
  constexpr std::uint64_t kCycles = 200'000'000, kCost = 8800;
  // Cycles from one event to the next, by what part of the run it is.
  const std::map<const char*, std::vector<std::uint64_t>> programs = {
      {"steady", {50}}, {"flood", {1000, 3}}, {"drought", {3, 1000}}, {"waves", {400, 3, 400, 3}}};
  for (const auto& [name, phases] : programs)
    for (const double share : {0.01, 0.1, 0.5}) {
      Sampler sampler(0, 0, 11);
      sampler.set_period(Budget::kFirstPeriod);
      Budget budget(share);
      std::uint64_t cycles = 0, handler = 0, interrupts = 0, events = 0;
      double weight = 0;
      while (cycles < kCycles) {
        cycles += phases[cycles * phases.size() / kCycles % phases.size()];
        ++events;
        if (!sampler.count()) continue;
        sampler.take({0, kNoBucket, 0, 0});
        weight += static_cast<double>(sampler.last().weight);
        handler += kCost;
        sampler.set_period(budget.next_period(sampler.events(), cycles, handler, ++interrupts));
      }
      const double spent = static_cast<double>(handler) / static_cast<double>(handler + cycles);
      CAPTURE(name);
      CAPTURE(share);
      CHECK(spent <= share * 1.05);
      // A drought after a flood may end the run before its first sample.
      if (std::string_view(name) != "drought") CHECK(spent >= share * 0.95);
      if (interrupts > 1000)
        CHECK(weight / static_cast<double>(events) ==
              doctest::Approx(1).epsilon(6 / std::sqrt(static_cast<double>(interrupts))));
    }
}

TEST_CASE("a handler that cannot be afforded at all backs off and goes on") {
  Budget budget(0.0001);
  std::uint64_t period = Budget::kFirstPeriod;
  for (std::uint64_t interrupts = 1; interrupts <= 5; ++interrupts)
    period = budget.next_period(interrupts, interrupts, interrupts * 8800, interrupts);
  CHECK(period > 1'000'000);
  CHECK(period < 1'000'000'000'000'000'000ULL);
}

TEST_CASE("a handler looks up what there is to look up, in memory of its own") {
  Handler handler;
  const auto touched = [&](std::uint64_t address, std::uint64_t objects) {
    std::vector<std::uint64_t> addresses;
    Sample sample{.bucket = 5, .victim = kNoBucket, .operation = 77, .latency = 3};
    sample.address = address;
    handler.run(sample, objects, 100, [&](std::uint64_t at, std::uint32_t bytes, bool) {
      CHECK(bytes > 0);
      CHECK(at >= Handler::kBase);
      CHECK(at + bytes <= Handler::kBase + Handler::kBytes);
      addresses.push_back(at);
    });
    return addresses;
  };
  const auto few = touched(0x1000, 1), many = touched(0x1000, 1'000'000);
  CHECK(many.size() == few.size() + 19);  // a tree of a million has 20 levels
  // The root and all but the look-up of the object are the same for any address.
  const auto other = touched(0x7fff'0000, 1'000'000);
  std::size_t same = 0;
  for (std::size_t i = 0; i < many.size(); ++i) same += many[i] == other[i];
  CHECK(same >= few.size() - 1);
  CHECK(same < many.size() - 5);
}
