// SPDX-License-Identifier: Apache-2.0
// Where inside of blocks misses fall: from their start, by element, by granule.
#include <doctest.h>

#include <map>

#include "probes/offsets.h"

namespace stallscope::probes {
namespace {

constexpr std::uint64_t kHeap = 0x10000;

struct Counted {
  std::map<std::pair<std::string, std::uint64_t>, std::uint64_t> misses;  // by kind and offset
  std::uint64_t all = 0;
  std::uint64_t latency = 0;
  FoldTable fold;
};

struct World {
  Buckets buckets;
  Offsets offsets{buckets};

  void miss(std::uint64_t address, std::uint32_t operation = 1, bool counted = true) {
    offsets.miss(buckets.find(address), address, operation, counted, 10);
  }
  Counted counted() const {
    Counted result;
    OffsetTable table;
    offsets.fill(table);
    offsets.fill(result.fold);
    for (std::size_t i = 0; i < table.rows(); ++i) {
      const std::string kind(buckets.kind_of(table.bucket[i]));
      result.misses[{kind, table.offset[i]}] += table.misses[i];
      result.all += table.misses[i];
      result.latency += table.latency[i];
    }
    return result;
  }
};

TEST_CASE("offsets count from the start of the block, variable or mapping that holds an address") {
  World world;
  world.buckets.map("mapping", "data", kHeap, 1 << 20);
  world.buckets.name("global", "table", "", kHeap + 0x8000, 64);
  world.buckets.allocate(kHeap + 0x100, 5000, 0);
  world.buckets.allocate(kHeap + 0x4000, 64, 0);
  world.buckets.give_name("mine", kHeap + 0x4010, 16);
  world.miss(kHeap + 0x100 + 4999);  // in another page than its start
  world.miss(kHeap + 0x4008);
  world.miss(kHeap + 0x4018);
  world.miss(kHeap + 0x8010);
  world.miss(kHeap + 0x9000);
  world.miss(kHeap + 0x9000, 1, false);
  auto counted = world.counted();
  CHECK(counted.misses == decltype(counted.misses){{{"heap", 4999}, 1},
                                                   {{"heap", 8}, 1},
                                                   {{"named", 8}, 1},
                                                   {{"global", 16}, 1},
                                                   {{"mapping", 0x9000}, 1}});
  CHECK(counted.latency == 60);
}

TEST_CASE("a block that is gone no longer lies there") {
  World world;
  world.buckets.allocate(kHeap, 256, 0);
  world.buckets.release(kHeap);
  world.buckets.allocate(kHeap + 64, 64, 1);
  world.miss(kHeap + 72);
  world.miss(kHeap + 8);  // nobody's
  auto counted = world.counted();
  CHECK(counted.misses == decltype(counted.misses){{{"heap", 8}, 1}});
}

TEST_CASE("stacks and the allocator's own memory are left out") {
  World world;
  world.buckets.map("stack", "", kHeap, 4096);
  world.buckets.map("mapping", "[heap]", kHeap + 8192, 4096);
  world.miss(kHeap + 8);
  world.miss(kHeap + 8200);
  CHECK(world.counted().misses.empty());
  CHECK(world.counted().fold.rows() == 0);
}

TEST_CASE("a large array of known elements is counted by element") {
  World world;
  int questions = 0;
  world.offsets.ask([&](const Offsets::Question& question) -> std::uint64_t {
    ++questions;
    CHECK(question.address == kHeap);
    CHECK(question.largest == 24 * 100'000);
    CHECK(question.uses.size() == 2);
    return 24;
  });
  world.buckets.allocate(kHeap, 24 * 100'000, 0);
  for (std::uint64_t i = 0; i < 100'000; ++i) {
    world.miss(kHeap + 24 * i + 8, 1);
    world.miss(kHeap + 24 * i + 16, 2);
  }
  auto counted = world.counted();
  CHECK(questions == 1);
  CHECK(counted.misses ==
        decltype(counted.misses){{{"heap", 8}, 100'000}, {{"heap", 16}, 100'000}});
  REQUIRE(counted.fold.rows() == 1);
  CHECK(counted.fold.period[0] == 24);
  CHECK(counted.fold.granule[0] == 1);
  CHECK(counted.fold.largest[0] == 24 * 100'000);
}

TEST_CASE("the count that new [] keeps is no part of the first element") {
  World world;
  world.offsets.ask([](const Offsets::Question&) -> std::uint64_t { return 24; });
  const BucketId bucket = world.buckets.allocate(kHeap, 8 + 24 * 10'000, 0);
  world.offsets.is_new_array(bucket);
  for (std::uint64_t i = 0; i < 10'000; ++i) world.miss(kHeap + 8 + 24 * i + 16);
  auto counted = world.counted();
  CHECK(counted.misses == decltype(counted.misses){{{"heap", 16}, 10'000}});
  CHECK(counted.fold.header[0] == 8);
}

TEST_CASE("a large array of unknown elements is counted in granules, and nothing is lost") {
  World world;
  int questions = 0;
  world.offsets.ask([&](const Offsets::Question&) -> std::uint64_t {
    ++questions;
    return 0;
  });
  world.buckets.allocate(kHeap, 8 * 1'000'000, 0);
  for (std::uint64_t i = 0; i < 1'000'000; ++i) world.miss(kHeap + 8 * i);
  auto counted = world.counted();
  CHECK(questions == 5);  // at 4,096, 8,192, … 65,536
  CHECK(counted.all == 1'000'000);
  CHECK(counted.latency == 10'000'000);
  CHECK(counted.misses.size() <= 65'536);
  REQUIRE(counted.fold.rows() == 1);
  const std::uint64_t granule = counted.fold.granule[0];
  CHECK(granule >= 128);
  for (const auto& [place, misses] : counted.misses) CHECK(place.second % granule == 0);
}

TEST_CASE("many arrays together stay within a bound") {
  World world;
  for (std::uint32_t site = 0; site < 60; ++site)
    world.buckets.allocate(kHeap + site * 0x1000000ULL, 8 * 60'000, site);
  for (std::uint32_t site = 0; site < 60; ++site)
    for (std::uint64_t i = 0; i < 60'000; ++i) world.miss(kHeap + site * 0x1000000ULL + 8 * i);
  OffsetTable table;
  world.offsets.fill(table);
  CHECK(table.rows() <= 2'000'000);
  CHECK(world.counted().all == 60 * 60'000);
}

TEST_CASE("regions are told apart") {
  World world;
  world.buckets.allocate(kHeap, 64, 0);
  world.miss(kHeap);
  world.offsets.enter(3);
  world.miss(kHeap);
  world.miss(kHeap);
  OffsetTable table;
  world.offsets.fill(table);
  REQUIRE(table.rows() == 2);
  CHECK(table.region[0] == 0);
  CHECK(table.region[1] == 3);
  CHECK(table.misses[1] == 2);
}

}  // namespace
}  // namespace stallscope::probes
