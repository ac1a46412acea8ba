// SPDX-License-Identifier: Apache-2.0
#include <doctest.h>

#include "probes/regions.h"

using namespace stallscope;
using namespace stallscope::probes;

namespace {

Regions::Done after(std::uint64_t instructions) { return {instructions, 0, {}}; }

}  // namespace

TEST_CASE("what a thread does counts for the innermost region that it is in") {
  Regions regions;
  CHECK(regions.current() == 0);
  regions.begin(1, "load");
  const std::uint32_t load = regions.current();
  regions.begin(1, "parse");
  const std::uint32_t parse = regions.current();
  CHECK(load != parse);
  regions.run(2);
  CHECK(regions.current() == 0);  // each thread has its own
  regions.begin(2, "parse");
  CHECK(regions.current() != parse);  // not inside load
  regions.run(1);
  CHECK(regions.current() == parse);
  regions.end(1, "parse");
  CHECK(regions.current() == load);
  regions.end(1, "load");
  CHECK(regions.current() == 0);
}

TEST_CASE("a region inside itself is one region, also with another in between") {
  Regions regions;
  regions.begin(1, "a");
  const std::uint32_t a = regions.current();
  regions.begin(1, "a");
  CHECK(regions.current() == a);
  regions.begin(1, "b");
  const std::uint32_t b = regions.current();
  for (int i = 0; i < 1000; ++i) {
    regions.begin(1, "a");
    CHECK(regions.current() == b);
  }
  for (int i = 0; i < 1000; ++i) regions.end(1, "a");
  regions.end(1, "b");
  CHECK(regions.current() == a);
  RegionTable table;
  regions.fill(table);
  REQUIRE(table.rows() == 3);
  CHECK(table.entered == std::vector<std::uint64_t>{0, 1002, 1});
  CHECK(table.around == std::vector<std::uint32_t>{kNone32, 0, a});
}

TEST_CASE("an end closes what is inside it, and one that was never begun changes nothing") {
  Regions regions;
  regions.end(1, "never");
  regions.begin(1, "outer");
  regions.begin(1, "left by longjmp");
  regions.end(1, "never");
  CHECK(regions.current() != 0);
  regions.end(1, "outer");
  CHECK(regions.current() == 0);
  regions.begin(1, "outer");
  regions.exit(1);
  CHECK(regions.current() == 0);
}

TEST_CASE("what is done between two changes is charged to the region before") {
  Regions regions;
  regions.charge(0, {100, 10, {{5, 4, 3}}});
  regions.begin(1, "r");
  regions.charge(regions.current(), {150, 30, {{9, 4, 3}}});
  regions.charge(0, {175, 31, {{9, 6, 4}}});
  RegionTable table;
  regions.fill(table);
  CHECK(table.instructions == std::vector<std::uint64_t>{125, 50});
  CHECK(table.accesses == std::vector<std::uint64_t>{11, 20});
  RegionLevelTable levels;
  regions.fill(levels);
  CHECK(levels.accesses == std::vector<std::uint64_t>{5, 4});
  CHECK(levels.misses == std::vector<std::uint64_t>{6, 0});
  CHECK(levels.evictions == std::vector<std::uint64_t>{4, 0});
}

TEST_CASE("more regions than there is room for count for the one around them") {
  Regions regions;
  regions.begin(1, "all");
  const std::uint32_t all = regions.current();
  for (std::uint32_t i = 0; i < kMaxRegions + 10; ++i) {
    const std::string name = std::to_string(i);
    regions.begin(1, name);
    regions.charge(regions.current(), after(i));
    regions.end(1, name);
    REQUIRE(regions.current() == all);
  }
  RegionTable table;
  regions.fill(table);
  CHECK(table.rows() == kMaxRegions);
}
