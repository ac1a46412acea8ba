// SPDX-License-Identifier: Apache-2.0
// Pools keep their books under every way of sharing.
#include <doctest.h>

#include <random>
#include <string>
#include <vector>

#include "stack/pools.h"

using namespace stallscope::stack;

TEST_CASE("pools never have more than memory, and miss each page once at least") {
  std::mt19937_64 random(7);
  std::vector<std::uint64_t> pages;
  std::vector<std::uint32_t> owners;
  for (int i = 0; i < 30'000; ++i) {
    const std::uint32_t owner = random() % 3;
    owners.push_back(owner);
    // A loop, a cluster that moves, and anything.
    const std::uint64_t page = owner == 0   ? i % 120
                               : owner == 1 ? i / 500 + random() % 20
                                            : random();
    pages.push_back(page % 300);
  }
  for (const char* sharing : {"throughput", "equal", "service", "fixed", "global"}) {
    CAPTURE(std::string(sharing));
    PoolOptions options{.pools = 3, .memory = 150, .group = 4, .epoch = 1000};
    options.sharing = sharing;
    options.choose_policy = true;
    options.threshold = 10;
    options.levels = {50, 50, 50};
    auto pools = Pools::make(options);
    REQUIRE(pools.ok());
    REQUIRE(pools->append(pages, owners).ok());
    CHECK(pools->history().size() == 3 * 30);
    for (std::size_t i = 0; i < pools->history().size(); i += 3) {
      std::uint64_t granted = 0;
      for (std::size_t k = i; k < i + 3; ++k) granted += pools->history()[k].state.granted;
      CHECK(granted <= 150);
    }
    std::uint64_t references = 0;
    for (const PoolState& state : pools->states()) {
      references += state.references;
      CHECK(state.misses >= state.cold);
      CHECK(state.cold > 0);
    }
    CHECK(references == pages.size());
  }
}

namespace {

// Misses of a program that goes over two areas in turn, as in the phases of a transform: in each
// phase one of them several times, both together larger than memory.
std::uint64_t misses_in_phases(const char* sharing, bool choose, bool* together = nullptr) {
  std::vector<std::uint64_t> pages;
  std::vector<std::uint32_t> owners;
  for (std::uint32_t phase = 0; phase < 60; ++phase)
    for (int pass = 0; pass < 8; ++pass)
      for (std::uint64_t page = 0; page < 140; ++page) {
        pages.push_back(page);
        owners.push_back(phase % 2);
      }
  PoolOptions options{.pools = 2, .memory = 150, .group = 4, .epoch = 1000};
  options.sharing = sharing;
  options.choose_policy = choose;
  options.threshold = 10;
  auto pools = Pools::make(options);
  REQUIRE(pools.ok());
  REQUIRE(pools->append(pages, owners).ok());
  std::uint64_t misses = 0, granted = 0;
  for (const PoolState& state : pools->states()) {
    misses += state.misses;
    granted += state.granted;
    if (together) *together = state.together;
  }
  CHECK(granted <= options.memory);
  return misses;
}

}  // namespace

TEST_CASE("pools that serve worse than one LRU order give way to it") {
  bool together = false;
  const std::uint64_t lru = misses_in_phases("global", false);
  CHECK(lru == 60 * 140);
  CHECK(misses_in_phases("fixed", true) > 2 * lru);
  CHECK(misses_in_phases("throughput", true, &together) < lru * 5 / 4);
  CHECK(together);
}

TEST_CASE("pools that serve better stay apart") {
  // A loop that is larger than memory, and a cluster.
  std::vector<std::uint64_t> pages;
  std::vector<std::uint32_t> owners;
  for (std::uint64_t i = 0; i < 60'000; ++i) {
    owners.push_back(i % 2);
    pages.push_back(i % 2 ? i / 2000 + i % 7 : i / 2 % 200);
  }
  PoolOptions options{.pools = 2, .memory = 150, .group = 4, .epoch = 1000};
  options.choose_policy = true;
  options.threshold = 10;
  auto pools = Pools::make(options);
  REQUIRE(pools->append(pages, owners).ok());
  CHECK_FALSE(pools->states()[0].together);
  CHECK(pools->states()[0].mru);
  CHECK_FALSE(pools->states()[1].mru);
  CHECK(pools->states()[0].misses < 15'000);
}
