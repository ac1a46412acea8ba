// SPDX-License-Identifier: Apache-2.0
#include <doctest.h>

#include <algorithm>
#include <random>
#include <unordered_map>
#include <vector>

#include "machine/path.h"
#include "stack/lru_stack.h"
#include "stack/path_stack.h"

using namespace stallscope;
using machine::PathClock;
using machine::PathConfig;
using machine::PathUnit;
using stack::LruStack;
using stack::PathStack;

namespace {

struct Log {
  std::vector<std::uint64_t> pages, moments;
  std::vector<std::uint8_t> kinds;

  void add(std::uint64_t page, std::uint8_t kind, std::uint64_t moment) {
    pages.push_back(page);
    kinds.push_back(kind);
    moments.push_back(moment);
  }
};

// What a unit tells of these pages, with those idle for as many entries dropped that often.
Log log_of(const std::vector<std::uint64_t>& pages, const PathConfig& config, std::uint64_t idle) {
  PathClock clock;
  PathUnit unit(config, &clock);
  Log log;
  std::uint64_t dropped_at = 0;
  for (const std::uint64_t page : pages) {
    if (unit.access(page, false))
      log.add(page, unit.came() ? PathStack::came : PathStack::again, clock.now());
    if (clock.entries - dropped_at >= idle) {
      dropped_at = clock.entries;
      unit.drop_idle(idle);
    }
    unit.departures(
        [&](std::uint64_t gone, std::uint64_t used) { log.add(gone, PathStack::left, used); });
  }
  return log;
}

std::vector<std::uint64_t> true_curve(const std::vector<std::uint64_t>& pages) {
  LruStack stack;
  REQUIRE(stack.append(pages));
  return stack.counts().curve();
}

std::vector<std::uint64_t> told_curve(const Log& log, std::uint64_t recent, std::size_t piece) {
  PathStack stack(recent);
  for (std::size_t i = 0; i < log.pages.size(); i += piece) {
    const std::size_t n = std::min(piece, log.pages.size() - i);
    REQUIRE(stack.append({log.pages.data() + i, n}, {log.kinds.data() + i, n},
                         {log.moments.data() + i, n}));
  }
  return stack.counts().curve();
}

// Loops that overtake each other, a page used all the time, and others at random.
std::vector<std::uint64_t> mixed(std::size_t count, std::uint64_t pages, unsigned seed) {
  std::mt19937_64 random(seed);
  std::vector<std::uint64_t> made;
  for (std::size_t i = 0; made.size() < count; ++i) {
    made.push_back(1000 + i % pages);
    made.push_back(1);
    made.push_back(1000 + (i + 3) % pages);
    if (i % 5 == 0) made.push_back(1000 + random() % (2 * pages));
  }
  return made;
}

constexpr PathConfig kSmall{.tlb_entries = 8,
                            .tlb_ways = 4,
                            .buffer_entries = 32,
                            .buffer_ways = 4,
                            .filter_entries = 4,
                            .log_entries = 8};

}  // namespace

TEST_CASE("the curve of what comes and leaves is exact from twice the buffer's reach on") {
  for (const unsigned seed : {1u, 2u, 3u}) {
    const std::vector<std::uint64_t> pages = mixed(60000, 150, seed);
    const auto exact = true_curve(pages);
    // A page idle for a quarter of the buffer's entries is gone, so that those held are in use.
    const auto told = told_curve(log_of(pages, kSmall, 8), 32, pages.size());
    REQUIRE(told.size() == exact.size());
    for (std::size_t size = 64; size < exact.size(); ++size) {
      CAPTURE(size);
      CHECK(told[size] == exact[size]);
    }
  }
}

TEST_CASE("it does not matter in which pieces a log is appended, nor how often places run out") {
  const std::vector<std::uint64_t> pages = mixed(40000, 120, 7);
  const Log log = log_of(pages, kSmall, 256);
  const auto whole = told_curve(log, 1 << 15, log.pages.size());
  CHECK(told_curve(log, 1 << 15, 13) == whole);
  CHECK(told_curve(log, 512, log.pages.size()) == whole);
  CHECK(told_curve(log, 512, 100) == whole);
}

TEST_CASE("pages that left stand in the order of their last uses, not of their departures") {
  Log log;
  for (std::uint64_t page = 1; page <= 4; ++page) log.add(page, PathStack::came, page << 16);
  log.add(3, PathStack::left, 4 << 16 | 1);
  log.add(1, PathStack::left, 4 << 16 | 3);
  log.add(2, PathStack::left, 4 << 16 | 2);
  log.add(3, PathStack::came, 5 << 16);  // behind 1, 2 and 4, which is still held
  PathStack stack;
  REQUIRE(stack.append(log.pages, log.kinds, log.moments));
  CHECK(stack.held() == 2);
  CHECK(stack.counts().curve() == std::vector<std::uint64_t>{5, 5, 5, 5, 4});
}

TEST_CASE("a page that two units hold has left when both have said so") {
  Log log;
  log.add(1, PathStack::came, 1 << 16);
  log.add(1, PathStack::came, 2 << 16);
  log.add(1, PathStack::left, 1 << 16);
  PathStack stack;
  REQUIRE(stack.append(log.pages, log.kinds, log.moments));
  CHECK(stack.held() == 1);
  REQUIRE(stack.append(std::vector<std::uint64_t>{1}, std::vector<std::uint8_t>{PathStack::left},
                       std::vector<std::uint64_t>{2 << 16}));
  CHECK(stack.held() == 0);
}

TEST_CASE("a page that leaves without having come was used once") {
  PathStack stack;
  REQUIRE(stack.append(std::vector<std::uint64_t>{5, 6, 5},
                       std::vector<std::uint8_t>{PathStack::left, PathStack::came, PathStack::came},
                       std::vector<std::uint64_t>{0, 1 << 16, 2 << 16}));
  CHECK(stack.held() == 2);
  CHECK(stack.counts().curve() == std::vector<std::uint64_t>{3, 3, 2});
}

TEST_CASE("more pages than places of an entry find others") {
  Log log;
  for (std::uint64_t page = 1; page <= 100; ++page) log.add(page, PathStack::came, 1 << 16);
  for (std::uint64_t page = 1; page <= 100; ++page) log.add(page, PathStack::left, 1 << 16 | page);
  log.add(1, PathStack::came, 2 << 16);
  PathStack stack;
  REQUIRE(stack.append(log.pages, log.kinds, log.moments));
  CHECK(stack.held() == 1);
  CHECK(stack.distinct() == 100);
  CHECK_FALSE(stack.append(log.pages, {}, log.moments));
}
