// SPDX-License-Identifier: Apache-2.0
#include <doctest.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "machine/path.h"

using namespace stallscope;
using namespace stallscope::machine;

namespace {

// A TLB of two pages, a buffer of four, a filter of one and a log of three.
constexpr PathConfig kSmall{2, 2, 4, 2, 1, 3, 0};

}  // namespace

TEST_CASE("a PATH unit logs what neither TLB, buffer nor filter has") {
  PathUnit unit(kSmall);
  CHECK(unit.access(10, false));
  CHECK_FALSE(unit.access(10, false));
  CHECK(unit.access(10, true));  // written for the first time
  CHECK_FALSE(unit.access(10, true));
  CHECK(unit.access(12, false));
  CHECK(unit.access(14, false));  // the set of even pages has room for two
  CHECK(unit.access(10, false));  // so 10 is gone from TLB and buffer
  CHECK(unit.access(14, true));   // known, but not as written
  CHECK(unit.counters().lookups == 8);
}

TEST_CASE("a full log is an exception, and one that is read early is not") {
  PathUnit unit(kSmall);
  for (std::uint64_t page = 0; page < 7; ++page) unit.access(page * 100, false);
  CHECK(unit.counters().logged == 7);
  CHECK(unit.counters().exceptions == 2);
  CHECK(unit.read_early() == 1);
  CHECK(unit.read_early() == 0);
  CHECK(unit.counters().early_reads == 1);
  unit.access(1, false);
  unit.access(3, false);
  CHECK(unit.counters().exceptions == 2);
}

TEST_CASE("a unit that is turned off sees nothing, and begins anew") {
  PathUnit unit(kSmall);
  CHECK(unit.access(5, false));
  unit.turn(false);
  CHECK_FALSE(unit.access(6, false));
  CHECK(unit.counters().lookups == 1);
  unit.turn(true);
  CHECK(unit.access(5, false));
}

TEST_CASE("hot pages are those that stayed and were used since they were read last") {
  PathConfig config = kSmall;
  config.refresh = 2;
  PathUnit unit(config);
  std::vector<std::uint64_t> hot;
  const auto note = [&](std::uint64_t page) { hot.push_back(page); };
  unit.access(1, false);
  CHECK_FALSE(unit.due());
  unit.access(2, false);
  REQUIRE(unit.due());
  unit.refresh(note);
  CHECK(hot.empty());  // both were logged since
  unit.access(4, false);
  unit.access(1, false);  // gone from the TLB, found in the buffer
  unit.access(6, false);
  REQUIRE(unit.due());
  unit.refresh(note);
  CHECK(hot == std::vector<std::uint64_t>{1});
  CHECK(unit.counters().refreshed == 1);
}

TEST_CASE("what leaves TLB and buffer is told, with when it was used last") {
  PathClock clock;
  PathUnit unit(kSmall, &clock);
  std::vector<std::pair<std::uint64_t, std::uint64_t>> left;
  const auto note = [&](std::uint64_t page, std::uint64_t used) { left.push_back({page, used}); };
  unit.access(2, false);  // logged: 1.0
  unit.access(4, false);  // 2.0; the even set of the buffer is full
  unit.access(2, false);  // found in the TLB: 2.1
  unit.access(6, false);  // 3.0; the TLB gives up 4, the buffer 2, which the TLB still has
  unit.departures(note);
  CHECK(left.empty());
  unit.access(8, false);  // 4.0; the TLB gives up 2 and the buffer 4
  unit.departures(note);
  const auto at = [](std::uint64_t entries, std::uint64_t lookups) {
    return entries << PathClock::kLookupBits | lookups;
  };
  CHECK(left == std::vector<std::pair<std::uint64_t, std::uint64_t>>{{2, at(2, 1)}, {4, at(2, 0)}});
  CHECK(unit.counters().left == 2);
  // Four pages logged, and a departure that found no room beside the one before it.
  CHECK(unit.counters().logged == 4);
  CHECK(unit.counters().exceptions == 1);
}

TEST_CASE("pages that are idle for long leave, and are logged when they are used again") {
  PathClock clock;
  PathUnit unit({.tlb_entries = 2, .tlb_ways = 2, .buffer_entries = 16, .buffer_ways = 2}, &clock);
  std::vector<std::uint64_t> left;
  const auto note = [&](std::uint64_t page, std::uint64_t) { left.push_back(page); };
  for (const std::uint64_t page : {1, 2, 3, 4, 5, 3}) unit.access(page, false);
  unit.drop_idle(3);
  unit.departures(note);
  std::sort(left.begin(), left.end());
  CHECK(left == std::vector<std::uint64_t>{1});
  CHECK(unit.access(1, false));
  CHECK(unit.came());
  CHECK_FALSE(unit.access(3, false));
}

TEST_CASE("a unit that is turned off gives up all of its pages") {
  PathClock clock;
  PathUnit unit(kSmall, &clock);
  unit.access(1, false);
  unit.access(2, false);
  unit.turn(false);
  std::vector<std::uint64_t> left;
  unit.departures([&](std::uint64_t page, std::uint64_t) { left.push_back(page); });
  std::sort(left.begin(), left.end());
  CHECK(left == std::vector<std::uint64_t>{1, 2});
}

TEST_CASE("lookups that run out count as an entry") {
  PathClock clock;
  for (std::uint64_t i = 0; i < (1u << PathClock::kLookupBits) - 1; ++i) clock.look();
  CHECK(clock.entries == 0);
  clock.look();
  CHECK(clock.now() == std::uint64_t{1} << PathClock::kLookupBits);
}

TEST_CASE("sizes that cannot be made are refused") {
  PathConfig config;
  CHECK(PathUnit::check(config));
  config.buffer_ways = 3;
  CHECK_FALSE(PathUnit::check(config));
  config = {};
  config.log_entries = 0;
  CHECK_FALSE(PathUnit::check(config));
}
