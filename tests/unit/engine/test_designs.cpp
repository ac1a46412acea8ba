// SPDX-License-Identifier: Apache-2.0
// Many machines in one pass against a machine each, and stacks of sets against a search.
#include <doctest.h>

#include <algorithm>
#include <deque>
#include <random>

#include "machine_words.h"
#include "session/designs.h"
#include "stack/residents.h"
#include "stack/set_stacks.h"
#include "stream/code_table.h"

using namespace stallscope;
using namespace stallscope::machine;
using namespace stallscope::machine::words;
using session::Designs;

namespace {

// Reads and writes of up to 100 bytes each, in blocks of one operation.
struct Trace {
  stream::CodeTable code;
  std::vector<std::pair<std::uint32_t, std::uint64_t>> runs;  // exit, address

  Trace(std::uint64_t seed, std::size_t length, std::uint64_t reach) {
    std::mt19937_64 random(seed);
    for (std::uint32_t i = 0; i < 40; ++i) {
      code.blocks.push_back({0x1000 + 48 * i, i, 1, i, 1, i, 1, 0, 1});
      code.exits.push_back({i, i, 1, 1});
      const auto size = static_cast<std::uint32_t>(1 + random() % (i % 4 ? 8 : 100));
      const bool prefetch = i % 7 == 6;
      const auto kind = static_cast<std::uint8_t>(prefetch ? SS_OP_KIND_PREFETCH : i % 3);
      code.operations.push_back({prefetch ? 1 : size, 0, kind, !prefetch});
      code.instructions.push_back({0x1000 + 48 * i, 1, false});
    }
    for (std::size_t i = 0; i < length; ++i) {
      const auto exit = static_cast<std::uint32_t>(random() % 40);
      const bool absent = random() % 50 == 0 && code.operations[exit].guarded;
      runs.emplace_back(exit, absent ? kNoAddress : random() % (1 + random() % reach));
    }
  }
};

MachineConfig hierarchy(std::mt19937_64& random) {
  const auto size = [&](std::initializer_list<std::uint32_t> from) {
    return *(from.begin() + static_cast<std::ptrdiff_t>(random() % from.size()));
  };
  MachineConfig config;
  config.caches = {cache("L1I", size({2, 4, 8}), size({1, 2})),
                   cache("L1D", size({1, 4, 6}), size({1, 2, 4})),
                   cache("L2", size({8, 12, 16}), size({1, 3, 8}), size({64, 128})),
                   cache("L3", size({1, 32}), size({8, 300}), 128)};
  config.caches[0].holds = Holds::instructions;
  config.caches[1].holds = Holds::data;
  config.tlbs = {{"DTLB", Holds::data, 8, size({1, 2, 8}), 4096, 0},
                 {"ITLB", Holds::instructions, 4, 2, 4096, 0},
                 {"STLB", Holds::both, size({16, 32}), 4, 4096, 7}};
  config.memory_latency = 100;
  return config;
}

std::vector<session::LevelCounts> alone(const MachineConfig& config, const Trace& trace) {
  auto machine = make_machine(config);
  REQUIRE(machine);
  NullProbe probe;
  session::CodeLines lines(trace.code, 64);
  std::uint64_t last = ~0ULL, accesses = 0, fetched = 0;
  for (const auto& [exit, address] : trace.runs) {
    for (const std::uint64_t line : lines.of(exit)) {
      if (line == last) continue;
      last = line;
      ++fetched;
      (*machine)->fetch(line, 1, probe);
    }
    if (address == kNoAddress) continue;
    ++accesses;
    const stream::Operation& operation = trace.code.operations[exit];
    constexpr AccessKind kKinds[] = {AccessKind::load, AccessKind::store, AccessKind::modify,
                                     AccessKind::load /* none */, AccessKind::prefetch};
    (*machine)->data(address, operation.size, kKinds[operation.kind], probe);
  }
  std::vector<session::LevelCounts> found;
  for (std::uint32_t i = 0; i < config.caches.size(); ++i) {
    const Counters c = (*machine)->cache_counters(i);
    found.push_back({i == 0 ? trace.runs.size() : c.accessed(), c.missed(), c.evictions});
  }
  for (std::uint32_t i = 0; i < config.tlbs.size(); ++i) {
    const Counters c = (*machine)->tlb_counters(i);
    found.push_back({c.accessed(), c.missed(), c.evictions});
  }
  return found;
}

void check_each(const std::vector<MachineConfig>& configs, const Trace& trace) {
  auto designs = Designs::make(configs, trace.code);
  REQUIRE(designs);
  for (const auto& [exit, address] : trace.runs)
    (*designs)->on_block(exit, trace.code.exits[exit], &address);
  const auto result = (*designs)->result();
  REQUIRE(result);
  for (std::size_t i = 0; i < configs.size(); ++i) {
    const auto expected = alone(configs[i], trace);
    for (std::size_t level = 0; level < expected.size(); ++level) {
      CAPTURE(level);
      CHECK(result->machines[i][level].accesses == expected[level].accesses);
      CHECK(result->machines[i][level].misses == expected[level].misses);
      CHECK(result->machines[i][level].evictions == expected[level].evictions);
    }
  }
}

}  // namespace

TEST_CASE("a stack of each set says how many ways it takes to hit") {
  for (const std::uint32_t ways : {3u, 300u}) {
    std::mt19937_64 random(ways);
    stack::SetStacks stacks(6, ways);
    std::vector<std::deque<std::uint64_t>> naive(6);
    for (int i = 0; i < 20'000; ++i) {
      const std::uint64_t line = random() % (1 + random() % 4000);
      auto& set = naive[line % 6];
      const auto place = std::ranges::find(set, line);
      const auto depth = static_cast<std::uint64_t>(place - set.begin());
      const std::uint64_t held = std::min<std::uint64_t>(set.size(), ways);
      const bool known = place != set.end() && depth < ways;
      const stack::SetStacks::Place found = stacks.touch(line);
      REQUIRE(found.depth == (known ? depth : ways));
      REQUIRE(found.evicting == std::min<std::uint64_t>(found.depth, held));
      if (place != set.end()) set.erase(place);
      set.push_front(line);
    }
  }
}

TEST_CASE("many machines in one pass count what each counts alone") {
  std::mt19937_64 random(11);
  for (std::uint64_t seed = 0; seed < 6; ++seed) {
    const Trace trace(seed, 6000, seed % 2 ? 1 << 16 : 1 << 20);
    std::vector<MachineConfig> configs;
    for (int i = 0; i < 25; ++i) configs.push_back(hierarchy(random));
    check_each(configs, trace);
  }
}

TEST_CASE("machines with many numbers of sets count what each counts alone") {
  std::mt19937_64 random(12);
  for (std::uint64_t seed = 0; seed < 4; ++seed) {
    const Trace trace(seed, 6000, seed % 2 ? 1 << 16 : 1 << 19);
    std::vector<MachineConfig> configs;
    for (std::uint32_t i = 1; i <= 40; ++i) {
      MachineConfig config = hierarchy(random);
      config.caches[0] = cache("L1I", 4, 2);  // as fetches go
      config.caches[0].holds = Holds::instructions;
      config.caches[1] = cache("L1D", seed < 2 ? 4 : 2 * i, 1 + i % 2);
      config.caches[1].holds = Holds::data;
      config.caches[2] = cache("L2", i * (1 + i % 3), 1 + i % 3);
      config.caches[3] = cache("L3", 64, 4);
      configs.push_back(config);
    }
    check_each(configs, trace);
  }
}

TEST_CASE("residents of many caches miss what a list of each set's lines misses") {
  for (const bool all : {true, false}) {
    std::mt19937_64 random(13);
    std::vector<stack::Residents::Shape> shapes;
    for (std::uint32_t i = 1; i <= stack::Residents::kMost; ++i)
      shapes.push_back({1 + i * 7 % 24, 1 + i * 5 % 11});
    stack::Residents residents(shapes);
    std::vector<std::vector<std::deque<std::uint64_t>>> naive;
    std::vector<std::uint64_t> evictions(shapes.size());
    for (const auto& shape : shapes) naive.emplace_back(shape.sets);
    for (int i = 0; i < 20'000; ++i) {
      const std::uint64_t line = random() % (1 + random() % 600);
      const std::uint64_t by = all ? ~std::uint64_t{0} : random() | random();
      std::uint64_t missed = 0;
      for (std::size_t k = 0; k < shapes.size(); ++k) {
        if (!(by >> k & 1)) continue;
        auto& set = naive[k][line % shapes[k].sets];
        const auto place = std::ranges::find(set, line);
        if (place == set.end())
          missed |= std::uint64_t{1} << k;
        else
          set.erase(place);
        set.push_front(line);
        if (set.size() <= shapes[k].ways) continue;
        set.pop_back();
        ++evictions[k];
      }
      REQUIRE((all ? residents.touch(line) : residents.use(line, by)) == missed);
    }
    for (unsigned k = 0; k < shapes.size(); ++k) CHECK(residents.evictions(k) == evictions[k]);
  }
}

TEST_CASE("machines that one pass is not exact for are refused") {
  const stream::CodeTable code;
  MachineConfig plain = of({cache("L1", 8, 2)});
  CHECK(Designs::make({plain}, code));
  CHECK_FALSE(Designs::make({}, code));
  MachineConfig other = plain;
  other.caches[0].policy = "fifo";
  CHECK_FALSE(Designs::make({other}, code));
  other = plain;
  other.caches[0].write_allocate = false;
  CHECK_FALSE(Designs::make({other}, code));
  other = plain;
  other.mapping.random = true;
  CHECK_FALSE(Designs::make({other}, code));
  CHECK_FALSE(Designs::make({plain, of({cache("L1", 8, 2, 32)})}, code));
}
