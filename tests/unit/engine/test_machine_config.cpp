// SPDX-License-Identifier: Apache-2.0
#include <doctest.h>

#include <functional>

#include "machine_words.h"

using namespace stallscope;
using namespace stallscope::machine;
using words::cache;

namespace {

MachineConfig sound() {
  MachineConfig config = words::of({cache("L1", 64, 8), cache("L2", 1024, 16)});
  config.tlbs = {{"DTLB", Holds::data, 64, 4, 4096, 0}};
  return config;
}

std::string fault(const std::function<void(MachineConfig&)>& change) {
  MachineConfig config = sound();
  change(config);
  const auto made = make_machine(config);
  return made.ok() ? "" : made.error().what;
}

}  // namespace

TEST_CASE("a sound configuration makes a machine") {
  CHECK(fault([](MachineConfig&) {}) == "");
  CHECK(fault([](MachineConfig& c) { c.tlbs.clear(); }) == "");
  CHECK(fault([](MachineConfig& c) { c.caches[1] = cache("L2", 1000, 11, 128); }) == "");
}

TEST_CASE("a cache that cannot be is told by its value and the reason") {
  CHECK(fault([](MachineConfig& c) { c.caches[1].ways = 12; }) ==
        "L2.ways = 12: 1 MiB / 64 B / 12 ways is not a whole number of sets");
  CHECK(fault([](MachineConfig& c) { c.caches[0].ways = 0; }) ==
        "L1.ways = 0: a cache has at least one way");
  CHECK(fault([](MachineConfig& c) { c.caches[0].size = 0; }) ==
        "L1.size = 0: a cache has at least one line");
  CHECK(fault([](MachineConfig& c) { c.caches[0].line = 48; }) ==
        "L1.line = 48: a line is a power of two from 8 B to 4 KiB");
  CHECK(fault([](MachineConfig& c) { c.caches[1].line = 32; }) ==
        "L2.line = 32: L1, nearer to the core, has lines of 64 B; lines may only grow outwards");
  CHECK(fault([](MachineConfig& c) { c.caches[1].size = std::uint64_t{1} << 40; }) ==
        "L2.size = 1 TiB: at most 268435456 lines can be simulated");
  CHECK(fault([](MachineConfig& c) { c.caches[1].name = "L1"; }) == "two caches have the name L1");
  CHECK(fault([](MachineConfig& c) { c.caches[1].name = ""; }) == "a cache has no name");
  CHECK(fault([](MachineConfig& c) { c.caches.clear(); }) == "no cache holds data");
}

TEST_CASE("a policy that cannot be is told, with those that can") {
  CHECK(fault([](MachineConfig& c) { c.caches[0].policy = "mru"; }) ==
        "L1.policy = mru: there is no such policy");
  MachineConfig config = sound();
  config.caches[0].policy = "mru";
  CHECK(make_machine(config).error().now == "choose one of lru, plru, fifo, random, srrip");
  CHECK(fault([](MachineConfig& c) {
          c.caches[0] = cache("L1", 64, 12);
          c.caches[0].policy = "plru";
        }) == "L1.ways = 12: plru takes a power of two, for the ways are leaves of a binary tree");
  CHECK(fault([](MachineConfig& c) {
          c.caches[0] = cache("L1", 64, 40);
          c.caches[0].policy = "srrip";
        }) == "L1.ways = 40: srrip takes at most 32 ways");
}

TEST_CASE("inclusion needs the right neighbour") {
  CHECK(fault([](MachineConfig& c) { c.caches[0].inclusion = Inclusion::inclusive; }) ==
        "L1.inclusion = inclusive: no cache is nearer to the core");
  CHECK(fault([](MachineConfig& c) {
          c.caches[1] = cache("L2", 64, 8, 128);
          c.caches[1].inclusion = Inclusion::exclusive;
        }) == "L2.line = 128: lines move between an exclusive cache and L1, whose lines have 64 B");
  CHECK(fault([](MachineConfig& c) {
          c.caches[0].write_back = false;
          c.caches[1].inclusion = Inclusion::exclusive;
        }) ==
        "L2.inclusion = exclusive: dirty lines would move into L1, which does not write back");
}

TEST_CASE("TLBs, prefetchers and mappings are checked too") {
  CHECK(fault([](MachineConfig& c) { c.tlbs[0].ways = 3; }) ==
        "DTLB.ways = 3: 64 entries / 3 ways is not a whole number of sets");
  CHECK(fault([](MachineConfig& c) { c.tlbs[0].entries = 0; }) ==
        "DTLB.entries = 0: a TLB has at least one entry");
  CHECK(fault([](MachineConfig& c) { c.tlbs[0].page = 5000; }) ==
        "DTLB.page = 5000: a page is a power of two, no smaller than a line and at most 1 GiB");
  CHECK(fault([](MachineConfig& c) {
          c.prefetchers = {{"magic", 0, 1}};
        }) == "prefetcher.kind = magic: there is no such prefetcher");
  CHECK(fault([](MachineConfig& c) {
          c.prefetchers = {{"stream", 2, 1}};
        }) == "prefetcher.level = 2: the machine has 2 caches, counted from 0");
  CHECK(fault([](MachineConfig& c) {
          c.prefetchers = {{"stream", 1, 0}};
        }) == "prefetcher.degree = 0: a degree is from 1 to 64 lines");
  CHECK(fault([](MachineConfig& c) { c.mapping.page = 3; }) ==
        "mapping.page = 3: a page is a power of two, no smaller than a line and at most 1 GiB");
}
