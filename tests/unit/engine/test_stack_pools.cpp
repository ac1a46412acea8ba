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
