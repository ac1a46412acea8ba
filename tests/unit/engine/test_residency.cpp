// SPDX-License-Identifier: Apache-2.0
// What stays in the caches: against the caches themselves, and against a model that looks at every
// byte at every step.
#include <doctest.h>

#include <map>
#include <random>
#include <set>
#include <vector>

#include "machine_words.h"
#include "probes/integrals.h"
#include "probes/line_set.h"
#include "probes/residency.h"

using namespace stallscope;
using namespace stallscope::machine;
using namespace stallscope::machine::words;
using probes::BucketId;
using probes::Buckets;
using probes::Integrals;
using probes::LineSet;
using probes::Residency;

namespace {

struct Probe : NullProbe {
  explicit Probe(Residency& to) : residency(to) {}
  Residency& residency;
  void on_miss(const Miss& miss) { residency.on_miss(miss); }
};

void one_access(Machine& machine, std::mt19937_64& random, std::uint64_t bytes, Probe& probe) {
  constexpr std::uint32_t kSizes[] = {1, 8, 64, 150};
  const std::uint64_t address = random() % bytes;
  const std::uint32_t size = kSizes[random() % 4];
  switch (random() % 4) {
    case 0:
      return machine.fetch(address, size, probe);
    case 1:
      return machine.data(address, size, AccessKind::store, probe);
    case 2:
      return machine.data(address, size, AccessKind::modify, probe);
    default:
      return machine.data(address, size, AccessKind::load, probe);
  }
}

MachineConfig three_levels() {
  MachineConfig config =
      of({cache("L1I", 2, 2), cache("L1D", 4, 2), cache("L2", 4, 4), cache("L3", 8, 4)});
  config.caches[0].holds = Holds::instructions;
  config.caches[1].holds = Holds::data;
  return config;
}

std::vector<std::pair<const char*, MachineConfig>> machines() {
  std::vector<std::pair<const char*, MachineConfig>> all;
  all.emplace_back("plain", three_levels());
  MachineConfig config = three_levels();
  config.caches[2].inclusion = config.caches[3].inclusion = Inclusion::inclusive;
  config.caches[3].line = 128;
  config.caches[3].size *= 2;
  all.emplace_back("inclusive", config);
  config = three_levels();
  config.caches[2].inclusion = config.caches[3].inclusion = Inclusion::exclusive;
  all.emplace_back("exclusive twice", config);
  config = three_levels();
  config.caches[1].write_allocate = config.caches[1].write_back = false;
  config.caches[2].inclusion = Inclusion::inclusive;
  config.caches[3].inclusion = Inclusion::exclusive;
  all.emplace_back("as power5", config);
  config = three_levels();
  config.caches[1].write_allocate = false;
  config.caches[2].write_back = false;
  config.caches[2].policy = config.caches[3].policy = "srrip";
  config.prefetchers.push_back({"next_line", 1, 2});
  config.prefetchers.push_back({"stream", 2, 2});
  all.emplace_back("prefetching", config);
  config = three_levels();
  config.mapping.random = true;
  config.caches[3].inclusion = Inclusion::exclusive;
  config.prefetchers.push_back({"next_line", 1, 1});
  all.emplace_back("random pages", config);
  return all;
}

}  // namespace

TEST_CASE("it knows what every cache of every machine holds") {
  for (const auto& [name, config] : machines()) {
    CAPTURE(name);
    auto made = make_machine(config);
    REQUIRE(made);
    Machine& machine = **made;
    Buckets buckets;
    Residency residency(config, buckets);
    Probe probe(residency);
    std::mt19937_64 random(5);
    for (int step = 0; step < 6000; ++step) {
      one_access(machine, random, step < 3000 ? 9000 : 40000, probe);
      if (step % 7) continue;
      for (std::uint32_t i = 0; i < config.caches.size(); ++i) {
        CAPTURE(i);
        const std::vector<std::uint64_t> truth = machine.resident(i);
        REQUIRE(residency.lines(i) == truth.size());
        for (const std::uint64_t address : truth) REQUIRE(residency.has(i, address));
      }
    }
  }
}

TEST_CASE("averages are those of looking at every byte after every step") {
  const MachineConfig config = of({cache("L1", 4, 2), cache("L2", 8, 4)});
  auto made = make_machine(config);
  Machine& machine = **made;
  Buckets buckets;
  Residency residency(config, buckets);
  Probe probe(residency);
  using Key = std::tuple<std::uint32_t, std::uint32_t, BucketId>;  // level, region, bucket
  std::map<Key, double> lines, bytes;
  std::map<std::pair<std::uint32_t, BucketId>, double> live;  // region, bucket
  constexpr std::uint64_t kBytes = 6000;
  buckets.map("mapping", "m", 0, 5000);
  buckets.name("global", "g", "", 512, 500);
  std::set<std::uint64_t> blocks;
  std::mt19937_64 random(9);
  std::uint64_t now = 0;
  std::uint32_t region = 0;
  for (int step = 0; step < 1500; ++step) {
    if (random() % 5 == 0) {
      const std::uint64_t address = 1100 + random() % 30 * 90;
      if (!blocks.insert(address).second) {
        buckets.release(address);
        blocks.erase(address);
      } else {
        buckets.allocate(address, 1 + random() % 89, static_cast<std::uint32_t>(random() % 4));
        if (random() % 3 == 0) buckets.give_name("named", address, 1 + random() % 20);
      }
    }
    if (random() % 9 == 0) residency.enter(region = static_cast<std::uint32_t>(random() % 3));
    one_access(machine, random, kBytes, probe);
    const std::uint64_t lasts = random() % 40;
    for (std::uint32_t level = 0; level < 2; ++level)
      for (const std::uint64_t line : machine.resident(level)) {
        lines[{level, region, buckets.find_line(line, 64)}] += static_cast<double>(lasts);
        for (std::uint64_t i = 0; i < 64; ++i)
          bytes[{level, region, buckets.find(line + i)}] += static_cast<double>(lasts);
      }
    for (std::uint64_t i = 0; i < kBytes; ++i)
      live[{region, buckets.find(i)}] += static_cast<double>(lasts);
    residency.advance(now += lasts);
  }
  ResidentTable table;
  residency.fill(table);
  REQUIRE(table.rows() > 20);
  std::map<Key, double> found_lines, found_bytes;
  for (std::size_t i = 0; i < table.rows(); ++i) {
    const Key key{table.level[i], table.region[i], table.bucket[i]};
    CHECK(table.lines[i] == lines[key]);
    CHECK(table.bytes[i] == bytes[key]);
    if (table.bucket[i] != Buckets::kUnknown)
      CHECK(table.live[i] == live[{table.region[i], table.bucket[i]}]);
    lines.erase(key);
    bytes.erase(key);
  }
  for (const auto& [key, sum] : bytes) CHECK(sum == 0);
}

TEST_CASE("numbers are summed up over the time of each region, however rarely they change") {
  Integrals sums;
  sums.change(0, 5);
  sums.advance(10);
  sums.enter(3);
  sums.advance(30);
  sums.enter(1);
  sums.advance(31);
  sums.enter(3);
  sums.advance(32);
  sums.change(0, -3);
  sums.change(1, 1);
  sums.advance(42);
  CHECK(sums.sum(0, 0) == 50);
  CHECK(sums.sum(1, 0) == 5);
  CHECK(sums.sum(2, 0) == 0);
  CHECK(sums.sum(3, 0) == 21 * 5 + 10 * 2);
  CHECK(sums.sum(3, 1) == 10);
  CHECK(sums.sum(0, 1) == 0);
  sums.enter(0);
  sums.advance(142);
  CHECK(sums.sum(0, 0) == 250);
  CHECK(sums.sum(3, 0) == 125);
  CHECK(sums.value(0) == 2);
}

TEST_CASE("a set of lines is the set that it was told") {
  std::mt19937_64 random(2);
  LineSet set;
  std::set<std::uint64_t> truth;
  for (int step = 0; step < 20'000; ++step) {
    const std::uint64_t line = random() % 2 ? random() % 300 : random() % 300 << 33;
    if (random() % 2)
      REQUIRE(set.add(line) == truth.insert(line).second);
    else
      REQUIRE(set.remove(line) == (truth.erase(line) == 1));
    REQUIRE(set.size() == truth.size());
    if (step % 50) continue;
    const std::uint64_t first = random() % 100, last = first + (random() % 2 ? 20 : 1 << 20);
    std::set<std::uint64_t> found;
    set.for_each_in(first, last, [&](std::uint64_t one) { CHECK(found.insert(one).second); });
    CHECK(found == std::set<std::uint64_t>(truth.lower_bound(first), truth.upper_bound(last)));
  }
}
