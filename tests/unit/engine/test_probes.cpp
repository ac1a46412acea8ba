// SPDX-License-Identifier: Apache-2.0
#include <doctest.h>

#include <map>
#include <random>
#include <set>

#include "probes/buckets.h"
#include "probes/misses.h"
#include "probes/object_map.h"
#include "probes/sampler.h"

using namespace stallscope;
using namespace stallscope::probes;

TEST_CASE("an address finds the range that holds it, whatever was placed and removed before") {
  std::mt19937_64 random(3);
  ObjectMap map;
  std::vector<BucketId> truth(6 * 4096, kNoBucket);  // one entry a byte
  std::map<std::uint64_t, std::uint64_t> live;
  for (int step = 0; step < 3000; ++step) {
    if (!live.empty() && random() % 3 == 0) {
      auto at = std::next(live.begin(), static_cast<long>(random() % live.size()));
      map.erase(at->first, at->second);
      std::fill_n(truth.begin() + static_cast<long>(at->first), at->second, kNoBucket);
      live.erase(at);
    } else {
      const std::uint64_t start = random() % 20000;
      const std::uint64_t size = 1 + random() % (random() % 8 == 0 ? 4500 : 90);
      const auto bucket = static_cast<BucketId>(step);
      map.insert(start, size, bucket);
      std::fill_n(truth.begin() + static_cast<long>(start), size, bucket);
      live[start] = size;
    }
    for (int look = 0; look < 8; ++look) {
      const std::uint64_t address = random() % truth.size();
      REQUIRE(map.find(address) == truth[address]);
    }
  }
}

TEST_CASE("so it does when ranges are wide, and around it everything has the same answer") {
  constexpr std::uint64_t kBytes = 24 * 4096;
  std::mt19937_64 random(5);
  ObjectMap map;
  std::vector<BucketId> truth(kBytes, kNoBucket);  // one entry a byte
  const auto fill = [&](std::uint64_t start, std::uint64_t size, BucketId bucket) {
    std::fill_n(truth.begin() + static_cast<long>(start), size, bucket);
  };
  for (int step = 0; step < 4000; ++step) {
    const std::uint64_t start = random() % (kBytes - 40'000);
    const std::uint64_t size = 1 + random() % (random() % 10 == 0 ? 40'000 : 300);
    const auto bucket = random() % 3 == 0 ? kNoBucket : static_cast<BucketId>(step);
    if (bucket == kNoBucket)
      map.erase(start, size);
    else
      map.insert(start, size, bucket);
    fill(start, size, bucket);
    for (int look = 0; look < 6; ++look) {
      const std::uint64_t address = random() % truth.size();
      const Stretch found = map.locate(address);
      REQUIRE(found.bucket == truth[address]);
      REQUIRE(map.find(address) == truth[address]);
      REQUIRE(address - found.start < found.end - found.start);
      for (const std::uint64_t edge : {found.start, found.end - 1})
        if (edge < kBytes) REQUIRE(truth[edge] == truth[address]);
      REQUIRE(map.has_wide(address, 1) <= (truth[address] != kNoBucket));
    }
  }
  std::uint64_t at = 0;
  map.split(0, kBytes, [&](BucketId bucket, std::uint64_t from, std::uint64_t bytes) {
    REQUIRE(from == at);
    at += bytes;
    for (; from < at; ++from) REQUIRE(truth[from] == bucket);
  });
  CHECK(at == kBytes);
}

TEST_CASE("what goes beyond the end of memory is left out") {
  ObjectMap map;
  map.insert(0x1000, 0x10000, 1);
  CHECK(!map.insert(~std::uint64_t{0} - 0xff, 0x3000, 2));
  CHECK(!map.insert(~std::uint64_t{0}, 1, 2));
  CHECK(!map.erase(0x8000, ~std::uint64_t{0}));
  CHECK(map.find(0x9000) == 1);
  CHECK(map.find(~std::uint64_t{0}) == kNoBucket);
}

TEST_CASE("of a line, the object that holds most of it is found") {
  ObjectMap map;
  map.insert(0x1000, 16, 1);
  map.insert(0x1010, 40, 2);
  map.insert(0x1038, 100, 3);
  CHECK(map.find_most(0x1000, 64) == 2);
  CHECK(map.find_most(0x1040, 64) == 3);
  CHECK(map.find_most(0x10c0, 64) == kNoBucket);
}

TEST_CASE("heap blocks of one path share a bucket, and lie above the mapping around them") {
  Buckets buckets;
  buckets.map("mapping", "[heap]", 0x10000, 0x10000);
  buckets.allocate(0x10100, 64, 7);
  buckets.allocate(0x10200, 64, 7);
  const BucketId first = buckets.find(0x10100);
  CHECK(first == buckets.find(0x1023f));
  CHECK(first != buckets.find(0x10140));
  buckets.release(0x10100);
  CHECK(buckets.find(0x10100) == buckets.find(0x10140));
  CHECK(buckets.find(0x900000) == Buckets::kUnknown);
  buckets.name("global", "table", "int [4]", 0x10200, 16);
  BucketTable table;
  buckets.fill(table);
  CHECK(table.blocks[first] == 2);
  CHECK(table.bytes[first] == 128);
  CHECK(table.name[buckets.find(0x10208)] == "table");
  buckets.unmap(0x10000, 0x10000);
  CHECK(buckets.find(0x10140) == Buckets::kUnknown);
}

TEST_CASE("a block that an allocator cuts out of a large one ends what was known of that") {
  Buckets buckets;
  buckets.map("mapping", "[heap]", 0x10000, 0x100000);
  buckets.allocate(0x10000, 0x10000, 1);
  const Buckets::Place whole = buckets.locate(0x14000);
  const std::uint32_t stamp = buckets.stamp(whole.slot);
  CHECK(whole.size > 0x1000);
  const BucketId piece = buckets.allocate(0x14000, 64, 2);
  CHECK(buckets.stamp(whole.slot) != stamp);
  CHECK(buckets.locate(0x14010).bucket == piece);
  CHECK(buckets.locate(0x14040).bucket == whole.bucket);
}

TEST_CASE("misses are kept by level, bucket and operation; cycles go to the last level missed") {
  Buckets buckets;
  Misses misses(buckets, 3, 0);
  misses.add(4, 10, 0b011, 50, 0);
  misses.add(4, 10, 0b001, 14, 0);
  misses.add(5, 10, 0b001, 0, 0);
  misses.evict(0, 5, 4, 10);
  misses.evict(0, 5, 4, 10);
  MissTable table;
  misses.fill(table);
  REQUIRE(table.rows() == 3);
  CHECK(table.misses == std::vector<std::uint64_t>{2, 1, 1});
  CHECK(table.latency == std::vector<std::uint64_t>{14, 50, 0});
  EvictionTable evictions;
  misses.fill(evictions);
  REQUIRE(evictions.rows() == 1);
  CHECK(evictions.count[0] == 2);
}

TEST_CASE("samples are spread evenly over a run of any length, and enough of them") {
  for (const std::uint64_t events : {50ULL, 9'000ULL, 30'000ULL, 1'000'000ULL}) {
    Sampler sampler(0, 1000, 7);
    for (std::uint64_t event = 0; event < events; ++event)
      if (sampler.count())
        sampler.take({static_cast<BucketId>(event * 4 / events), kNoBucket, 0, 0});
    CAPTURE(events);
    const auto& samples = sampler.samples();
    CHECK(sampler.events() == events);
    CHECK(samples.size() >= std::min<std::uint64_t>(events, 800));
    CHECK(samples.size() <= 2001);
    std::vector<double> quarters(4);
    for (const Sample& sample : samples) quarters[sample.bucket] += 1;
    for (double quarter : quarters)
      CHECK(quarter / static_cast<double>(samples.size()) == doctest::Approx(0.25).epsilon(0.25));
  }
}

TEST_CASE("what happens early in a run weighs no more than what happens late") {
  double early = 0;
  double all = 0;
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    Sampler sampler(0, 1000, seed);
    for (std::uint64_t event = 0; event < 9'000; ++event)
      if (sampler.count()) sampler.take({event < 4'500 ? 0u : 1u, kNoBucket, 0, 0});
    for (const Sample& sample : sampler.samples()) early += sample.bucket == 0;
    all += static_cast<double>(sampler.samples().size());
  }
  CHECK(early / all == doctest::Approx(0.5).epsilon(0.015));
}

TEST_CASE("a given period is kept on average and never falls into step with the program") {
  Sampler sampler(100, 0, 5);
  std::set<std::uint64_t> phases;
  for (std::uint64_t event = 0; event < 200'000; ++event)
    if (sampler.count()) {
      sampler.take({0, 0, 0, 0});
      phases.insert(event % 100);
    }
  CHECK(sampler.samples().size() == doctest::Approx(2000).epsilon(0.05));
  CHECK(phases.size() > 90);
}
