// SPDX-License-Identifier: Apache-2.0
#include <doctest.h>

#include <algorithm>
#include <random>
#include <set>
#include <vector>

#include "probes/full_lru.h"
#include "probes/tally.h"

using namespace stallscope;
using namespace stallscope::probes;

TEST_CASE("a fully associative cache answers as a list that is searched from the front does") {
  for (const std::uint32_t lines : {1u, 2u, 3u, 64u, 100u}) {
    CAPTURE(lines);
    std::mt19937_64 random(lines);
    FullLru lru(lines);
    std::vector<std::uint64_t> naive;  // most recent first
    std::set<std::uint64_t> seen;
    for (int step = 0; step < 40'000; ++step) {
      // Neighbours, strides that collide in a table, and lines far away.
      const std::uint64_t choice = random() % 3, small = random() % (lines * 2 + 1);
      const std::uint64_t line = choice == 0   ? small
                                 : choice == 1 ? small << 40
                                               : (~std::uint64_t{0} >> 6) - small;
      const bool fill = random() % 8 != 0;
      const auto at = std::find(naive.begin(), naive.end(), line);
      const FullLru::Found expected = at != naive.end()     ? FullLru::Found::here
                                      : seen.contains(line) ? FullLru::Found::lost
                                                            : FullLru::Found::never;
      REQUIRE(lru.look_up(line, fill) == expected);
      seen.insert(line);
      if (at != naive.end()) naive.erase(at);
      if (expected == FullLru::Found::here || fill) naive.insert(naive.begin(), line);
      if (naive.size() > lines) naive.pop_back();
    }
  }
}

TEST_CASE("numbers are kept apart by region, and found again when it comes back") {
  Tally<std::uint64_t> tally;
  tally.at(1, 5) += 1;
  tally.enter(2);
  tally.at(1, 5) += 10;
  tally.at(7, kNone32) += 100;
  tally.enter(0);
  tally.at(1, 5) += 1000;
  tally.enter(1);
  std::vector<std::vector<std::uint64_t>> rows;
  tally.for_each(
      [&](std::uint32_t region, BucketId bucket, std::uint32_t operation, std::uint64_t number) {
        rows.push_back({region, bucket, operation, number});
      });
  CHECK(rows == std::vector<std::vector<std::uint64_t>>{
                    {0, 1, 5, 1001}, {2, 1, 5, 10}, {2, 7, kNone32, 100}});
}
