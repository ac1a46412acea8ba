// SPDX-License-Identifier: Apache-2.0
#include <doctest.h>

#include <map>
#include <random>

#include "base/flat_map.h"

using stallscope::FlatMap;

TEST_CASE("a flat map keeps what a tree keeps, whatever comes and goes") {
  for (const std::uint64_t keys : {3, 40, 5000}) {
    std::mt19937_64 random(keys);
    FlatMap<std::uint64_t> flat;
    std::map<std::uint64_t, std::uint64_t> tree;
    for (std::uint64_t step = 0; step < 40'000; ++step) {
      // Near each other, as addresses are, and the largest number of all.
      const std::uint64_t key = (random() % keys) * 16 - 1;
      if (random() % 2) {
        const auto [value, fresh] = flat.try_emplace(key);
        REQUIRE(fresh == tree.try_emplace(key, step).second);
        if (fresh) *value = step;
      } else {
        REQUIRE(flat.erase(key) == (tree.erase(key) == 1));
      }
      const std::uint64_t other = (random() % keys) * 16 - 1;
      const std::uint64_t* found = flat.find(other);
      REQUIRE((found != nullptr) == tree.contains(other));
      if (found) REQUIRE(*found == tree[other]);
      REQUIRE(flat.size() == tree.size());
    }
    std::map<std::uint64_t, std::uint64_t> all;
    flat.for_each([&](std::uint64_t key, std::uint64_t value) { all[key] = value; });
    CHECK(all == tree);
  }
}

TEST_CASE("the key that marks free entries is a key like any other") {
  FlatMap<int> flat;
  CHECK(!flat.contains(~std::uint64_t{0}));
  *flat.try_emplace(~std::uint64_t{0}).first = 3;
  CHECK(!flat.try_emplace(~std::uint64_t{0}).second);
  CHECK(*flat.find(~std::uint64_t{0}) == 3);
  CHECK(flat.erase(~std::uint64_t{0}));
  CHECK(flat.empty());
  CHECK(*flat.try_emplace(~std::uint64_t{0}).first == 0);
}
