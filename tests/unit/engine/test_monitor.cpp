// SPDX-License-Identifier: Apache-2.0
// Monitor cores and watched ranges, against what is plain to see.
#include <doctest.h>

#include <random>
#include <set>

#include "monitor/group.h"
#include "probes/range_set.h"

namespace {

using namespace stallscope;
using monitor::Event;
using monitor::Opcode;

monitor::Image image_of(const std::vector<monitor::Instruction>& code, monitor::Detector detector) {
  monitor::Image image;
  image.scratch.resize(8);
  for (const monitor::Instruction& one : code) {
    const std::uint32_t word = monitor::encode(one);
    for (unsigned i = 0; i < 4; ++i)
      image.scratch.push_back(static_cast<std::uint8_t>(word >> 8 * i));
  }
  image.detectors.push_back(detector);
  image.boot = 8;
  return image;
}

}  // namespace

TEST_CASE("every instruction survives being encoded, and no other word is one") {
  for (const monitor::Entry& entry : monitor::instructions()) {
    monitor::Instruction one{entry.opcode};
    const auto decoded = monitor::decode(monitor::encode(one));
    REQUIRE(decoded);
    CHECK(decoded->opcode == entry.opcode);
  }
  CHECK(!monitor::decode(0));
  CHECK(!monitor::decode(0xffffffff));
  std::mt19937 random(1);
  for (int i = 0; i < 100'000; ++i) {
    const auto word = static_cast<std::uint32_t>(random());
    if (const auto decoded = monitor::decode(word)) CHECK(monitor::encode(*decoded) == word);
  }
}

TEST_CASE("any bytes run as a monitor without harm, and every cycle is accounted for") {
  std::mt19937 random(2);
  for (int round = 0; round < 200; ++round) {
    monitor::Image image;
    for (int i = 0; i < 512; ++i) image.scratch.push_back(static_cast<std::uint8_t>(random()));
    // Mostly instructions: a random one at each place.
    for (std::size_t at = 8; at + 4 <= image.scratch.size(); at += 4) {
      const auto all = monitor::instructions();
      monitor::Instruction one{all[random() % all.size()].opcode};
      one.rd = random() % 16;
      one.ra = random() % 16;
      one.rb = random() % 16;
      one.literal = static_cast<std::int32_t>(random() % 64) - 16;
      const std::uint32_t word = monitor::encode(one);
      for (unsigned i = 0; i < 4; ++i)
        image.scratch[at + i] = static_cast<std::uint8_t>(word >> 8 * i);
    }
    image.boot = 8;
    image.detectors.resize(monitor::kSignals);
    monitor::Config config;
    config.task_limit = 2000;
    monitor::Group group;
    REQUIRE(group.add(config, image));
    for (std::uint64_t cycle = 100; cycle < 20'000; cycle += 100)
      group.notify({Event::cycles, 0, cycle, cycle}, cycle, 100);
    group.advance(30'000);
    const monitor::Account& account = group.at(0).account();
    CHECK(account.busy + account.starting + account.waking + account.suspended +
              account.low_power ==
          group.at(0).now());
  }
}

TEST_CASE("a monitor counts what its detector lets through") {
  monitor::Detector detector;
  detector.event = Event::store;
  detector.every = 2;
  // Boot: the handler is at 20. Handler: pmhalt.
  const monitor::Image image = image_of(
      {{Opcode::addi, 6, 0, 0, 20}, {Opcode::wepm, 0, 6, 0, 0}, {Opcode::pmhalt}, {Opcode::pmhalt}},
      detector);
  monitor::Group group;
  REQUIRE(group.add({}, image));
  group.advance(100);
  CHECK(group.listens(Event::store));
  for (int i = 0; i < 10; ++i) group.notify({Event::store}, 200 + 50 * i);
  group.advance(5000);
  CHECK(group.at(0).account().signals == 5);
  CHECK(group.at(0).account().tasks == 6);
}

TEST_CASE("ranges are touched by exactly the accesses that a plain list says") {
  std::mt19937_64 random(3);
  probes::RangeSet set;
  std::vector<probes::RangeSet::Range> plain;
  for (std::uint32_t round = 0; round < 3000; ++round) {
    const std::uint64_t start = 0x10000 + random() % 20'000;
    const std::uint64_t size = round % 500 == 0 ? 300'000 : 1 + random() % 200;
    plain.push_back({start, start + size, round});
    set.add(plain.back());
    if (plain.size() > 40) {
      const std::size_t gone = random() % plain.size();
      set.remove(plain[gone]);
      plain.erase(plain.begin() + static_cast<std::ptrdiff_t>(gone));
    }
    const std::uint64_t address = 0xff00 + random() % 21'000;
    const auto bytes = static_cast<std::uint32_t>(1 + random() % 130);
    std::set<std::uint32_t> expected, found;
    for (const auto& range : plain)
      if (range.start < address + bytes && range.end > address) expected.insert(range.watch);
    std::size_t visits = 0;
    if (set.may_touch(address, bytes))
      set.touched(address, bytes, [&](const probes::RangeSet::Range& range) {
        found.insert(range.watch);
        ++visits;
      });
    CHECK(found == expected);
    CHECK(visits == expected.size());
  }
  CHECK(set.size() == plain.size());
}
