// SPDX-License-Identifier: Apache-2.0
#include <doctest.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "machine/coherence.h"
#include "machine_words.h"
#include "probes/random.h"

using namespace stallscope;
using namespace stallscope::machine;
using words::cache;

namespace {

constexpr Protocol kAll[] = {Protocol::mesi, Protocol::moesi, Protocol::dragon,
                             Protocol::dragon_owned};

struct Shape {
  const char* name;
  std::vector<CacheConfig> caches;
  const char* coherent;
  const char* shared;
};

CacheConfig behind(CacheConfig config, Inclusion inclusion) {
  config.inclusion = inclusion;
  return config;
}

// Caches so small that random programs throw lines out of all of them.
std::vector<Shape> shapes() {
  CacheConfig through = cache("L1", 2, 2);
  through.write_allocate = false;
  return {
      {"one cache a core", {cache("L1", 4, 2)}, "L1", ""},
      {"two a core, a victim cache a chip",
       {cache("L1", 2, 1), cache("L2", 4, 2), behind(cache("L3", 3, 4), Inclusion::exclusive)},
       "L2",
       "L3"},
      {"as POWER5",
       {through, cache("L2", 3, 3), behind(cache("L3", 8, 2), Inclusion::exclusive)},
       "L2",
       "L2"},
      {"one a core, one that includes them a chip",
       {cache("L1", 2, 2), behind(cache("L2", 4, 4), Inclusion::inclusive)},
       "L1",
       "L2"},
      {"two a core, one beside them a chip",
       {cache("L1", 2, 2), cache("L2", 4, 2), cache("L3", 8, 2)},
       "L2",
       "L3"},
  };
}

std::unique_ptr<Coherence> made(const Shape& shape, std::uint32_t chips, std::uint32_t cores,
                                Protocol protocol) {
  ChipsConfig config;
  config.chips = chips;
  config.cores = cores;
  config.protocol = protocol;
  config.coherent = shape.coherent;
  config.shared = shape.shared;
  MachineConfig caches = words::of(shape.caches);
  caches.mapping.random = chips % 2 == 0;
  config.page = 512;
  auto machine = Coherence::make(caches, config, true);
  REQUIRE(machine.ok());
  return std::move(*machine);
}

// Every load gives what was stored last, and the caches agree all along.
void run_random(Coherence& machine, std::uint32_t cores, std::uint64_t seed, unsigned steps,
                bool switching) {
  probes::Random random(seed);
  std::map<std::uint64_t, std::uint64_t> memory;
  for (unsigned step = 0; step < steps; ++step) {
    const auto core = static_cast<std::uint32_t>(random.next() % cores);
    const std::uint64_t line = random.next() % (random.next() % 4 ? 6 : 60);
    if (random.next() % 3 == 0) {
      machine.store(core, line, memory[line] = step + 1);
    } else if (const std::uint64_t got = machine.load(core, line); got != memory[line]) {
      FAIL("step " << step << ": core " << core << " read " << got << " from line " << line);
    }
    if (switching && random.next() % 97 == 0)
      machine.switch_protocol(kAll[random.next() % kProtocols]);
    if (step % 16 == 0 || switching)
      if (Status legal = machine.check(); !legal)
        FAIL("step " << step << ": " << legal.error().what);
  }
}

}  // namespace

TEST_CASE("random programs on coherent caches agree with a plain memory") {
  const std::pair<std::uint32_t, std::uint32_t> sizes[] = {{1, 2}, {2, 1},  {2, 2}, {4, 4},
                                                           {2, 8}, {16, 1}, {8, 8}, {64, 1}};
  for (const Shape& shape : shapes())
    for (const Protocol protocol : kAll)
      for (const auto& [chips, cores] : sizes) {
        if (cores == 1 && std::string(shape.name) == "as POWER5") continue;
        CAPTURE(shape.name);
        CAPTURE(std::string(name_of(protocol)));
        CAPTURE(chips);
        CAPTURE(cores);
        auto machine = made(shape, chips, cores, protocol);
        run_random(*machine, chips * cores, 7 * chips + cores, 3000, false);
      }
}

TEST_CASE("protocols follow each other without a flush and every state stays legal") {
  for (const Shape& shape : shapes())
    for (std::uint64_t seed = 1; seed <= 3; ++seed) {
      CAPTURE(shape.name);
      auto machine = made(shape, 2, 4, Protocol::moesi);
      run_random(*machine, 8, seed, 4000, true);
    }
}

TEST_CASE("a switch between MOESI and Dragon keeps every line and its state") {
  auto machine = made(shapes()[0], 4, 1, Protocol::moesi);
  machine->store(0, 1, 5);
  machine->load(1, 1);
  machine->load(2, 3);
  CHECK(machine->switch_protocol(Protocol::dragon) == 0);
  CHECK(machine->state_of(0, 1) == State::owned);
  CHECK(machine->state_of(1, 1) == State::shared);
  CHECK(machine->state_of(2, 3) == State::exclusive);
  machine->store(1, 1, 6);
  CHECK(machine->load(0, 1) == 6);
  CHECK(machine->switch_protocol(Protocol::mesi) == 1);
  CHECK(machine->state_of(1, 1) == State::shared);
  CHECK(machine->check().ok());
}

// From invalid and back each state is reached through fills and losses.
TEST_CASE("every state transition of each protocol happens, and no other") {
  using enum State;
  struct Arrow {
    State from, to;
  };
  const std::vector<Arrow> common = {
      {invalid, shared},   {invalid, exclusive}, {invalid, modified}, {exclusive, modified},
      {exclusive, shared}, {exclusive, invalid}, {shared, invalid},   {modified, invalid}};
  const std::vector<Arrow> by_protocol[kProtocols] = {
      {{modified, shared}, {shared, modified}},
      {{modified, owned}, {owned, modified}, {owned, invalid}, {shared, modified}},
      {{modified, owned},
       {owned, invalid},
       {owned, shared},
       {shared, owned},
       {invalid, owned},
       {owned, modified},
       {shared, modified}},
      {{modified, owned}, {owned, invalid}, {owned, shared}, {shared, owned}, {invalid, owned}},
  };
  for (const Protocol protocol : kAll) {
    CAPTURE(std::string(name_of(protocol)));
    auto machine = made(shapes()[0], 4, 1, protocol);
    run_random(*machine, 4, 11, 20000, false);
    bool expected[kStates][kStates]{};
    const auto expect = [&](const Arrow& arrow) {
      expected[static_cast<unsigned>(arrow.from)][static_cast<unsigned>(arrow.to)] = true;
    };
    for (const Arrow& arrow : common) expect(arrow);
    for (const Arrow& arrow : by_protocol[static_cast<unsigned>(protocol)]) expect(arrow);
    for (unsigned from = 0; from < kStates; ++from)
      for (unsigned to = 0; to < kStates; ++to) {
        CAPTURE(from);
        CAPTURE(to);
        const auto times = machine->transitions(static_cast<State>(from), static_cast<State>(to));
        CHECK((times > 0) == expected[from][to]);
      }
  }
}

TEST_CASE("Dragon sends writes to those who share; as the document has it, they end owned") {
  for (const Protocol protocol : {Protocol::dragon, Protocol::dragon_owned}) {
    auto machine = made(shapes()[0], 2, 1, protocol);
    machine->load(0, 8);
    machine->load(1, 8);
    machine->store(0, 8, 3);
    CHECK(machine->state_of(0, 8) == State::owned);
    CHECK(machine->state_of(1, 8) == State::shared);
    CHECK(machine->events().updates == 1);
    CHECK(machine->events().write_invalidates == 0);
    machine->load(1, 12);  // throws 8 out of the set of the second core
    machine->load(1, 16);
    CHECK(machine->state_of(1, 8) == State::invalid);
    machine->store(0, 8, 4);
    CHECK(machine->state_of(0, 8) ==
          (protocol == Protocol::dragon ? State::modified : State::owned));
  }
}

TEST_CASE("every fill names its source and latency") {
  const Shape power5 = shapes()[2];
  std::vector<CacheConfig> caches = power5.caches;
  caches[0].latency = 2;
  caches[1].latency = 14;
  caches[2].latency = 91;
  MachineConfig config = words::of(caches);
  config.memory_latency = 280;
  ChipsConfig chips;
  chips.chips = chips.cores = chips.threads = 2;
  chips.coherent = chips.shared = "L2";
  chips.remote_latency = 120;
  chips.remote_outer_latency = 200;
  chips.remote_memory_latency = 310;
  auto machine = std::move(*Coherence::make(config, chips));
  const auto expect = [&](std::uint32_t core, std::uint64_t line, bool writes, Source source,
                          std::uint32_t latency) {
    const Fill fill = machine->access(core, line, writes);
    CHECK(fill.source == source);
    CHECK(fill.latency == latency);
  };
  expect(0, 1, false, Source::memory, 280);
  expect(0, 1, false, Source::inner, 2);
  expect(1, 1, false, Source::cache, 14);
  expect(2, 1, false, Source::remote_cache, 120);
  expect(3, 1, true, Source::upgrade, 120);
  expect(0, 1, false, Source::remote_cache, 120);
  expect(2, 2, false, Source::remote_memory, 310);  // of a page that chip 0 touched first
  for (std::uint64_t line = 4; line <= 10; line += 3) machine->access(0, line, false);
  expect(0, 1, false, Source::outer, 91);
  for (std::uint64_t line = 5; line <= 11; line += 3) machine->access(2, line, false);
  expect(0, 2, false, Source::remote_outer, 200);
}

TEST_CASE("a placed page belongs to its chip whoever touches it first") {
  auto machine = made(shapes()[1], 2, 2, Protocol::mesi);
  machine->place_page(0x5000, 1);
  CHECK(machine->access(0, 0x5040 >> 6, false).source == Source::remote_memory);
  CHECK(machine->access(2, 0x5080 >> 6, false).source == Source::memory);
  CHECK(machine->access(0, 0x5200 >> 6, false).source == Source::memory);  // the next page
}

TEST_CASE("machines of several cores that cannot be are refused with a sentence") {
  const auto why = [](ChipsConfig chips, std::vector<CacheConfig> caches) {
    auto machine = Coherence::make(words::of(std::move(caches)), chips);
    REQUIRE_FALSE(machine.ok());
    return machine.error().what + ": " + machine.error().why;
  };
  ChipsConfig chips;
  chips.chips = 65;
  CHECK(why(chips, {cache("L1", 2, 2)}).find("at most 64 cores") != std::string::npos);
  chips.chips = 2;
  chips.coherent = "L7";
  CHECK(why(chips, {cache("L1", 2, 2)}).find("no such cache") != std::string::npos);
  chips.coherent = "";
  CHECK(why(chips, {cache("L1", 2, 2), cache("L2", 2, 2, 128)}).find("one size") !=
        std::string::npos);
  CacheConfig other = cache("L1", 2, 2);
  other.policy = "srrip";
  CHECK(why(chips, {other}).find("lru") != std::string::npos);
}
