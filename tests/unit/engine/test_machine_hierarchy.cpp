// SPDX-License-Identifier: Apache-2.0
#include <doctest.h>

#include <random>
#include <set>

#include "machine/machine.h"
#include "machine_naive.h"
#include "machine_words.h"

using namespace stallscope;
using namespace stallscope::machine;
using words::cache;
using words::of;

namespace {

struct Log {
  std::vector<naive::Eviction> events;
  void on_miss(const Miss& m) {
    events.push_back({m.level, m.line_address, m.victim, m.victim_dirty});
  }
  void on_translation_miss(const TranslationMiss&) {}
  void on_access_done(const Served&) {}
};

// Mostly near addresses of few lines, so that every level hits and misses; some accesses cross.
struct Trace {
  std::mt19937_64 random;
  std::uint64_t bytes;
  std::uint64_t address() {
    return random() % 4 ? 0x1000 + random() % (bytes / 8) : 0x1000 + random() % bytes;
  }
  std::uint32_t size() { return 1u << random() % 6; }
  AccessKind kind() {
    static constexpr AccessKind kAll[] = {AccessKind::load, AccessKind::load, AccessKind::store,
                                          AccessKind::modify};
    return kAll[random() % 4];
  }
};

void check_against_naive(const MachineConfig& config, std::uint64_t seed) {
  auto fast = make_machine(config);
  REQUIRE(fast.ok());
  naive::Hierarchy slow(config);
  Trace trace{std::mt19937_64(seed), 16384};
  Log log;
  for (int i = 0; i < 4000; ++i) {
    const std::uint64_t address = trace.address();
    const std::uint32_t size = trace.size();
    const AccessKind kind = trace.kind();
    // Again and again at times, so that settled lines are met in every state.
    for (std::uint64_t n = trace.random() % 3 + 1; n > 0; --n) {
      (*fast)->data(address, size, kind, log);
      slow.access(address, size, kind);
    }
    REQUIRE((log.events == slow.events));
    log.events.clear();
    slow.events.clear();
  }
  for (std::uint32_t level = 0; level < config.caches.size(); ++level) {
    const Counters counters = (*fast)->cache_counters(level);
    CHECK(counters.accessed() == slow.accesses[level]);
    CHECK(counters.missed() == slow.misses[level]);
    const auto resident = (*fast)->resident(level);
    CHECK((std::set(resident.begin(), resident.end()) == slow.caches[level].lines()));
  }
}

}  // namespace

TEST_CASE("every policy agrees with a naive model, alone and in a hierarchy") {
  for (const PolicyEntry& policy : policies()) {
    CAPTURE(policy.name);
    for (const std::uint32_t ways : {1u, 2u, 3u, 4u, 8u, 12u, 16u, 32u}) {
      if (policy.ways_power_of_two && (ways & (ways - 1))) continue;
      CAPTURE(ways);
      MachineConfig one = of({cache("L1", 4, ways)});
      one.caches[0].policy = policy.name;
      check_against_naive(one, ways);
      MachineConfig two = of({cache("L1", 3, 2), cache("L2", 5, ways)});
      two.caches[0].policy = two.caches[1].policy = policy.name;
      check_against_naive(two, ways + 100);
    }
  }
}

TEST_CASE("inclusion, write rules and line sizes agree with a naive model") {
  std::mt19937_64 random(7);
  for (int i = 0; i < 120; ++i) {
    CAPTURE(i);
    const std::uint32_t line = 16u << random() % 3;
    MachineConfig config = of({cache("L1", 1 + random() % 5, 1 + random() % 4, line)});
    for (const char* name : {"L2", "L3"}) {
      if (random() % 3 == 0) continue;
      const CacheConfig inner = config.caches.back();
      const auto inclusion = static_cast<Inclusion>(random() % 3);
      const std::uint32_t wider =
          inclusion == Inclusion::exclusive ? inner.line : inner.line << random() % 2;
      config.caches.push_back(cache(name, 1 + random() % 9, 1 + random() % 6, wider));
      config.caches.back().inclusion = inclusion;
    }
    bool moved_into = false;  // by dirty lines of the exclusive cache outside
    for (auto level = config.caches.rbegin(); level != config.caches.rend(); ++level) {
      level->policy = random() % 2 ? "lru" : "srrip";
      level->write_allocate = random() % 3 != 0;
      level->write_back = moved_into || random() % 3 != 0;
      moved_into = level->inclusion == Inclusion::exclusive;
    }
    check_against_naive(config, i);
  }
}

TEST_CASE("an access that had any level miss or fetch ahead is done before the next begins") {
  MachineConfig writes_on = of({cache("L1", 4, 4), cache("L2", 4, 2)});
  writes_on.caches[0].write_back = false;
  MachineConfig looks_ahead = of({cache("L1", 4, 2), cache("L2", 4, 4)});
  looks_ahead.prefetchers.push_back({"next_line", 0, 1});
  for (const MachineConfig& config : {writes_on, looks_ahead}) {
    auto made = make_machine(config);
    REQUIRE(made);
    Trace trace{std::mt19937_64(4), 6000};
    std::size_t after_hits = 0;
    for (int i = 0; i < 4000; ++i) {
      words::Log log;
      (*made)->data(trace.address(), trace.size(), trace.kind(), log);
      if (log.misses.empty()) continue;
      REQUIRE(log.served.size() == 1);
      REQUIRE(log.served[0].address == log.misses[0].address);
      after_hits += log.served[0].level == 0;
    }
    CHECK(after_hits > 10);  // the first level had it, others not
  }
}
