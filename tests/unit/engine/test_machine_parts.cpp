// SPDX-License-Identifier: Apache-2.0
// TLBs, prefetchers, mapping, and what a probe is told.
#include <doctest.h>

#include <algorithm>
#include <random>
#include <set>

#include "machine/passes.h"
#include "machine_words.h"

using namespace stallscope;
using namespace stallscope::machine;
using words::cache;
using words::load;
using words::Log;
using words::of;
using words::store;

namespace {

std::unique_ptr<Machine> made(const MachineConfig& config) {
  auto machine = make_machine(config);
  REQUIRE(machine.ok());
  return std::move(*machine);
}

MachineConfig with_prefetcher(const char* kind, std::uint32_t degree) {
  MachineConfig config = of({cache("L1", 64, 8), cache("L2", 1024, 16)});
  config.prefetchers = {{kind, 0, degree}};
  return config;
}

}  // namespace

TEST_CASE("a prefetcher goes on into the next page only when it crosses pages") {
  for (const bool crosses : {false, true}) {
    CAPTURE(crosses);
    MachineConfig config = with_prefetcher("stream", 4);
    config.prefetchers[0].crosses_pages = crosses;
    auto machine = made(config);
    for (std::uint64_t line = 0; line < 66; ++line) load(*machine, 0x10000 + line * 64, 8);
    // Two misses start a run; without crossing, the first line behind the page is missed again.
    CHECK(machine->cache_counters(0).missed() == (crosses ? 2 : 3));
  }
}

TEST_CASE("a stream is further ahead the longer it lasts") {
  auto entry = find_prefetcher("stream");
  const auto prefetcher = entry->make(64, 64);
  std::vector<std::uint64_t> wanted;
  std::vector<std::size_t> ahead;
  for (std::uint64_t line = 100; line < 108; ++line) {
    wanted.clear();
    prefetcher->observe(line, wanted);
    ahead.push_back(wanted.size());
  }
  CHECK(ahead == std::vector<std::size_t>{0, 4, 8, 16, 32, 64, 64, 64});
}

TEST_CASE("misses all over the place make a region prefetcher forget no stream") {
  for (const char* kind : {"stream", "region"}) {
    const auto prefetcher = find_prefetcher(kind)->make(4, 64);
    std::vector<std::uint64_t> wanted;
    for (const std::uint64_t line : {100, 101, 102}) prefetcher->observe(line, wanted);
    for (std::uint64_t i = 0; i < 40; ++i) prefetcher->observe(1'000'000 + i * i * 1000, wanted);
    wanted.clear();
    prefetcher->observe(103, wanted);
    CHECK(wanted.size() == (std::string_view(kind) == "region" ? 4 : 0));
  }
}

TEST_CASE("a region prefetcher brings what was used around most misses") {
  const auto prefetcher = find_prefetcher("region")->make(4, 64);
  std::vector<std::uint64_t> wanted;
  const auto around = [&](std::uint64_t line) {  // what is brought when a line is missed
    wanted.clear();
    prefetcher->observe(line, wanted);
    return wanted;
  };
  // Far from each other, each with the line five before it: too far for a stream.
  std::uint64_t line = 1000;
  for (int i = 0; i < 60; ++i, line += 1000) {
    around(line);
    around(line - 5);
  }
  CHECK(around(line) == std::vector<std::uint64_t>{line - 5});
  for (int i = 0; i < 80; ++i) around(line += 1000);  // alone: that is unlearnt
  CHECK(around(line + 1000).empty());
}

TEST_CASE("a TLB misses as often as a cache whose lines are its pages") {
  for (const std::uint32_t ways : {1u, 4u, 12u, 48u}) {
    CAPTURE(ways);
    MachineConfig config = of({cache("L1", 8, 2)});
    config.tlbs = {{"DTLB", Holds::data, 4 * ways, ways, 4096, 0},
                   {"STLB", Holds::both, 32 * ways, ways, 4096, 7}};
    auto machine = made(config);
    auto pages = made(of({cache("one", 4, ways, 4096), cache("two", 32, ways, 4096)}));
    std::mt19937_64 random(ways);
    for (int i = 0; i < 20'000; ++i) {
      const std::uint64_t page = random() % 3 ? random() % 8 : random() % 500;
      const std::uint64_t address = page * 4096 + random() % 4096;
      for (std::uint64_t n = random() % 3; n > 0; --n) {
        load(*machine, address, 8);
        load(*pages, address, 8);
      }
    }
    for (const std::uint32_t level : {0u, 1u}) {
      CHECK(machine->tlb_counters(level).accessed() == pages->cache_counters(level).accessed());
      CHECK(machine->tlb_counters(level).missed() == pages->cache_counters(level).missed());
      CHECK(machine->tlb_counters(level).missed() > 0);
    }
  }
}

TEST_CASE("data and instructions have their own first TLB and share the second") {
  MachineConfig config = of({cache("L1", 64, 8)});
  config.tlbs = {{"ITLB", Holds::instructions, 8, 8, 4096, 0},
                 {"DTLB", Holds::data, 8, 8, 4096, 0},
                 {"STLB", Holds::both, 64, 8, 4096, 7}};
  config.page_walk_latency = 30;
  config.caches[0].latency = 4;
  config.memory_latency = 200;
  auto machine = made(config);
  Log log;
  machine->data(0x1000, 8, AccessKind::load, log);
  machine->fetch(0x1000, 4, log);
  REQUIRE(log.served.size() == 2);
  CHECK(log.served[0].translation == 30);
  CHECK(log.served[0].latency == 230);
  CHECK(log.served[0].level == 1);  // memory
  CHECK(log.served[1].translation == 7);
  CHECK(log.served[1].latency == 11);
  CHECK(log.served[1].level == 0);
  REQUIRE(log.translations.size() == 3);
  CHECK(log.translations[0].tlb == 1);
  CHECK(log.translations[1].tlb == 2);
  CHECK(log.translations[2].tlb == 0);
}

TEST_CASE("an access across pages looks up both and counts once") {
  MachineConfig config = of({cache("L1", 64, 8)});
  config.tlbs = {{"DTLB", Holds::data, 8, 8, 4096, 0}};
  auto machine = made(config);
  Log log;
  machine->data(0x1ffc, 8, AccessKind::load, log);
  CHECK(machine->tlb_counters(0).accessed() == 1);
  CHECK(machine->tlb_counters(0).missed() == 1);
  CHECK(machine->tlb_counters(0).fills == 2);
  REQUIRE(log.translations.size() == 2);
  CHECK(log.translations[0].counted);
  CHECK(!log.translations[1].counted);
  CHECK(log.translations[1].page_address == 0x2000);
}

TEST_CASE("an access across lines is one access and one miss, but two fills") {
  auto machine = made(of({cache("L1", 64, 8), cache("L2", 1024, 16)}));
  Log log;
  load(*machine, 0x1000);
  machine->data(0x103c, 8, AccessKind::store, log);
  CHECK(machine->cache_counters(0).accessed() == 2);
  CHECK(machine->cache_counters(0).missed() == 2);
  CHECK(machine->cache_counters(0).fills == 2);
  // The whole access goes on, also its line that was there.
  CHECK(machine->cache_counters(1).accessed() == 2);
  REQUIRE(log.misses.size() == 2);
  CHECK(log.misses[0].line_address == 0x1040);
  CHECK(log.misses[0].address == 0x103c);
  CHECK(log.misses[1].level == 1);
}

TEST_CASE("a probe is told victims, and empty ways are none") {
  auto machine = made(of({cache("L1", 2, 2)}));
  Log log;
  store(*machine, 0x000);
  for (const std::uint64_t address : {0x100, 0x200, 0x300})
    machine->data(address, 4, AccessKind::load, log);
  REQUIRE(log.misses.size() == 3);
  CHECK(log.misses[0].victim == kNoVictim);
  CHECK(log.misses[1].victim == 0x000);
  CHECK(log.misses[1].victim_dirty);
  CHECK(log.misses[2].victim == 0x100);
  CHECK(!log.misses[2].victim_dirty);
  CHECK(machine->cache_counters(0).evictions == 2);
  CHECK(machine->cache_counters(0).writebacks == 1);
}

TEST_CASE("next line: a scan misses once a page") {
  auto machine = made(with_prefetcher("next_line", 1));
  Log log;
  for (std::uint64_t line = 0; line < 10 * 64; ++line)
    machine->data(0x100000 + line * 64, 8, AccessKind::load, log);
  const Counters counters = machine->cache_counters(0);
  CHECK(counters.missed() == 10);
  CHECK(counters.prefetch_fills == 630);
  CHECK(counters.prefetch_useful == 630);
  CHECK(counters.accessed() == 640);
  CHECK(machine->cache_counters(1).accessed() == 10);  // prefetches are no accesses
  CHECK(machine->cache_counters(1).prefetch_fills == 630);
  CHECK(std::count_if(log.misses.begin(), log.misses.end(), [](const Miss& miss) {
          return miss.cause == Cause::prefetch && miss.level == 0;
        }) == 630);
}

TEST_CASE("stride: from the third line of a walk on, lines are there") {
  auto machine = made(with_prefetcher("stride", 1));
  for (std::uint64_t line = 0; line < 64; line += 3) load(*machine, 0x100000 + line * 64);
  CHECK(machine->cache_counters(0).missed() == 3);
  auto unordered = made(with_prefetcher("stride", 4));
  for (const std::uint64_t line : {0, 5, 1, 9, 2, 30, 7, 50})
    load(*unordered, 0x100000 + line * 64);
  CHECK(unordered->cache_counters(0).prefetch_fills == 0);
}

TEST_CASE("stream: several runs, upwards and downwards, each found by its second miss") {
  auto machine = made(with_prefetcher("stream", 2));
  for (std::uint64_t i = 0; i < 60; ++i) {
    load(*machine, 0x100000 + i * 64);
    load(*machine, 0x200fc0 - i * 64);
  }
  CHECK(machine->cache_counters(0).missed() == 4);
}

TEST_CASE("a prefetched line that goes unused is not useful") {
  auto machine = made(with_prefetcher("next_line", 1));
  for (std::uint64_t i = 0; i < 100; ++i) load(*machine, 0x100000 + i * 8192);
  CHECK(machine->cache_counters(0).prefetch_fills == 100);
  CHECK(machine->cache_counters(0).prefetch_useful == 0);
}

TEST_CASE("the random mapping is one to one, keeps offsets and follows its seed") {
  Mapping mapping({true, 4096, 1}), other({true, 4096, 2});
  std::mt19937_64 random(3);
  std::set<std::uint64_t> seen;
  int differing = 0;
  for (std::uint64_t i = 0; i < 5000; ++i) {
    const std::uint64_t address = i < 2500 ? 0x7fff00000000 + i * 4096 + 5 : random();
    const std::uint64_t physical = mapping.physical(address);
    CHECK(mapping.virtual_of(physical) == address);
    CHECK(physical % 4096 == address % 4096);
    CHECK(seen.insert(physical).second);
    differing += physical != other.physical(address);
  }
  CHECK(differing > 4990);
}

TEST_CASE("a random mapping moves conflicts of large caches but none within a page") {
  MachineConfig config = of({cache("L1", 64, 8), cache("L2", 1024, 2)});
  auto plain = made(config);
  config.mapping.random = true;
  auto mapped = made(config);
  Log log;
  std::mt19937_64 random(1);
  std::set<std::uint64_t> touched;
  for (int i = 0; i < 30'000; ++i) {
    const std::uint64_t address = 0x7f0000000000 + random() % 2 * 8 + random() % 3000 * 4096 / 8;
    touched.insert(address / 64 * 64);
    touched.insert((address + 7) / 64 * 64);
    if (random() % 2) load(*plain, address, 8), load(*mapped, address, 8);  // settled by then
    load(*plain, address, 8);
    mapped->data(address, 8, AccessKind::load, log);
  }
  CHECK(plain->cache_counters(0).missed() == mapped->cache_counters(0).missed());
  CHECK(plain->cache_counters(1).missed() != mapped->cache_counters(1).missed());
  for (const Miss& miss : log.misses) {
    CHECK(touched.count(miss.line_address) == 1);
    if (miss.victim != kNoVictim) CHECK(touched.count(miss.victim) == 1);
  }
}

TEST_CASE("a page that the kernel clears is in the caches when it is first accessed") {
  MachineConfig config = of({cache("L1", 64, 8), cache("L2", 1024, 16)});
  config.mapping.cleared = true;
  auto machine = made(config);
  Log log;
  for (std::uint64_t at = 0; at < 4096; at += 8)
    machine->data(0x10000 + at, 8, AccessKind::load, log);
  CHECK(machine->cache_counters(0).missed() == 0);
  CHECK(machine->cache_counters(0).accessed() == 512);
  CHECK(machine->cache_counters(0).fills == 64);
  CHECK(machine->cache_counters(1).accessed() == 0);
  REQUIRE(log.misses.size() == 2 * 64);  // that nobody counts
  for (const Miss& miss : log.misses) {
    CHECK(miss.clearing);
    CHECK_FALSE(miss.counted);
  }
  REQUIRE(log.served.size() == 1);
  CHECK(log.served[0].level == 0);
}

TEST_CASE("cleared lines are dirty, and go the way of all lines") {
  MachineConfig config = of({cache("L1", 2, 2), cache("L2", 16, 2)});
  config.mapping.cleared = true;
  auto machine = made(config);
  load(*machine, 0x10000);
  CHECK(machine->cache_counters(0).writebacks == 61);
  CHECK(machine->cache_counters(1).writebacks == 33);
  CHECK(machine->resident(1).size() == 32);
  CHECK(machine->cache_counters(0).missed() == 1);  // its own first line has gone already
  CHECK(machine->cache_counters(1).missed() == 1);
}

TEST_CASE("pages are cleared once, unless they are unmapped between; those of files never") {
  MachineConfig config = of({cache("L1", 2, 2), cache("L2", 4096, 16)});
  config.mapping.cleared = true;
  auto machine = made(config);
  const auto filled = [&](std::uint64_t address) {
    const std::uint64_t before = machine->cache_counters(1).fills;
    store(*machine, address, 8);
    return machine->cache_counters(1).fills - before;
  };
  machine->map(0x40000, 0x4000, true);
  machine->map(0x41000, 0x1000, false);  // over it
  CHECK(filled(0x40000) == 1);
  CHECK(filled(0x41000) == 64);
  CHECK(filled(0x42000) == 1);
  CHECK(filled(0x44000) == 64);
  CHECK(filled(0x44ff0) == 0);
  CHECK(filled(0x46ffc) == 128);  // across two
  machine->map(0x44000, 1, false);
  machine->map(0, ~std::uint64_t{0}, false);
  CHECK(filled(0x42000) == 63);  // one line of it was there
  NullProbe probe;
  machine->data(0x50000, 1, AccessKind::prefetch, probe);  // brings a line, but no page
  CHECK(filled(0x50000) == 63);
  machine->fetch(0x60000, 4, probe);
  CHECK(filled(0x60000) == 63);
}

TEST_CASE("where pages are not cleared, nothing is remembered of them") {
  auto machine = made(of({cache("L1", 2, 2)}));
  machine->map(0x40000, 0x4000, false);
  store(*machine, 0x40000);
  CHECK(machine->cache_counters(0).fills == 1);
}

TEST_CASE("a machine without a cache for instructions takes fetches and counts no misses") {
  MachineConfig config = of({cache("L1", 64, 8)});
  config.caches[0].holds = Holds::data;
  auto machine = made(config);
  Log log;
  machine->fetch(0x1000, 4, log);
  CHECK(machine->cache_counters(0).accessed() == 0);
  CHECK((log.misses.empty() && log.served.empty()));
}

TEST_CASE("the last bytes of the address space are an address like any other") {
  MachineConfig config = of({cache("L1", 64, 8), cache("L2", 1024, 16)});
  config.tlbs = {{"DTLB", Holds::data, 8, 8, 4096, 0}};
  for (const bool random : {false, true}) {
    config.mapping.random = random;
    auto machine = made(config);
    for (int i = 0; i < 3; ++i) load(*machine, ~std::uint64_t{0} - 3, 16);
    CHECK(machine->cache_counters(0).missed() == 1);
    CHECK(machine->cache_counters(0).accessed() == 3);
  }
}

TEST_CASE("loads in passes are the same as one by one, also for what comes after them") {
  MachineConfig config = of({cache("L1", 4, 2), cache("L2", 16, 4)});
  config.tlbs = {{"DTLB", Holds::data, 4, 2, 4096, 0}, {"STLB", Holds::data, 16, 8, 4096, 7}};
  auto one = made(config), passes = made(config);
  REQUIRE(Passes::serves_data(*passes));
  std::mt19937_64 random(9);
  for (int round = 0; round < 4; ++round) {
    std::vector<std::uint64_t> addresses(30'000);
    std::vector<std::uint32_t> sizes(addresses.size());
    for (std::uint64_t& address : addresses) address = random() % (random() % 4 ? 4096 : 1 << 17);
    for (std::uint32_t& size : sizes) size = 1 + random() % (random() % 50 ? 8 : 700);
    for (std::size_t i = 0; i < addresses.size(); ++i) load(*one, addresses[i], sizes[i]);
    run_loads(*passes, addresses, sizes);
    for (int i = 0; i < 100; ++i) {
      const std::uint64_t address = random() % 8192;
      load(*one, address);
      load(*passes, address);
    }
    for (const std::uint32_t level : {0u, 1u}) {
      const Counters a = one->cache_counters(level), b = passes->cache_counters(level);
      CHECK(a.accessed() == b.accessed());
      CHECK(a.missed() == b.missed());
      CHECK(a.fills == b.fills);
      CHECK(a.evictions == b.evictions);
      CHECK(one->tlb_counters(level).missed() == passes->tlb_counters(level).missed());
      CHECK(one->tlb_counters(level).accessed() == passes->tlb_counters(level).accessed());
    }
  }
  CHECK(passes->clean());
  store(*passes, 1);
  passes->reset_counters();
  CHECK_FALSE(passes->clean());
}
