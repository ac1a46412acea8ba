// SPDX-License-Identifier: Apache-2.0
#include <doctest.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "machine/policies.h"
#include "machine/repeats.h"
#include "probes/random.h"

namespace stallscope::machine {
namespace {

// A level whose accesses go in lists through Repeats, and one that gets them all.
struct Both {
  Level filtered, whole;
  Repeats repeats;
  explicit Both(const char* policy)
      : filtered(0, {64, 4, 64}, *find_policy(policy), 1, false),
        whole(0, {64, 4, 64}, *find_policy(policy), 1, false),
        repeats(filtered) {}

  static std::uint64_t misses(Level& level, std::uint64_t first, std::uint64_t last) {
    std::uint64_t missed = 0;
    for (std::uint64_t line = first >> 6; line <= last >> 6; ++line)
      missed += !level.touch(level.set_of(line), key_of(line), 0).hit;
    return missed;
  }
  // How many of a list were repeats.
  std::uint32_t run(const std::vector<std::uint64_t>& addresses, std::uint64_t reach) {
    std::vector<std::uint32_t> list;
    std::vector<std::uint64_t> last;
    std::uint64_t expected = 0, found = 0;
    for (std::uint32_t i = 0; i < addresses.size(); ++i) {
      last.push_back(addresses[i] + reach);
      list.push_back(i << 1 | ((addresses[i] >> 6) != (last[i] >> 6)));
      expected += misses(whole, addresses[i], last[i]);
    }
    const auto count = static_cast<std::uint32_t>(list.size());
    const bool crossing = std::ranges::any_of(list, crosses);
    const std::uint32_t kept =
        repeats.drop(list.data(), count, addresses.data(), last.data(), crossing);
    for (std::uint32_t i = 0; i < kept; ++i)
      found += misses(filtered, addresses[index_of(list[i])], last[index_of(list[i])]);
    CHECK(found == expected);
    CHECK(filtered.resident() == whole.resident());
    return count - kept;
  }
};

std::vector<std::uint64_t> random_addresses(probes::Random& random, std::uint64_t lines) {
  std::vector<std::uint64_t> made;
  for (int i = 0; i < 500; ++i) made.push_back(random.next() % lines * 64 + random.next() % 64);
  return made;
}

}  // namespace

TEST_CASE("leaving out repeats changes neither misses nor what is resident") {
  for (const char* policy : {"lru", "fifo", "plru"}) {
    Both both(policy);
    probes::Random random(7);
    std::uint32_t dropped = 0;
    // Few lines, so that there are repeats; then many, where it rests; then few again.
    for (const std::uint64_t lines : {40, 5000, 40})
      for (int i = 0; i < 100; ++i) dropped += both.run(random_addresses(random, lines), i % 3);
    CHECK(dropped > 20000);
  }
}

TEST_CASE("no repeats where a fill does not settle its line, or sets are too many") {
  for (const Geometry& geometry : {Geometry{64, 4, 64}, Geometry{4096, 4, 64}}) {
    const bool many = geometry.sets > 64;
    const Level level(0, geometry, *find_policy(many ? "lru" : "srrip"), 1, false);
    Repeats repeats(level);
    const std::uint64_t addresses[] = {0, 0, 0, 0};
    std::uint32_t list[] = {0, 2, 4, 6};
    CHECK(repeats.drop(list, 4, addresses, addresses, false) == 4);
  }
}

}  // namespace stallscope::machine
