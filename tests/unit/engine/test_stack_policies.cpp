// SPDX-License-Identifier: Apache-2.0
// Replacement policies by hand: the states that their papers draw, step by step.
#include <doctest.h>

#include <random>
#include <set>
#include <vector>

#include "stack/moment_set.h"
#include "stack/policies/arc.h"
#include "stack/policies/clock.h"
#include "stack/policies/lirs.h"
#include "stack/policies/lru.h"
#include "stack/policies/mru.h"
#include "stack/policies/s3_fifo.h"
#include "stack/replacement.h"

using namespace stallscope::stack;

namespace {

// What one access did: hit, or the page that went ("-" when none did).
template <typename Policy>
std::string did(Policy& policy, char page) {
  policy.reserve(128);
  if (policy.access(static_cast<std::uint32_t>(page))) return "hit";
  if (policy.victim() == kNone) return "-";
  return std::string(1, static_cast<char>(policy.victim()));
}

template <typename Policy>
std::string all(Policy& policy, std::string_view pages) {
  std::string said;
  for (const char page : pages) {
    const std::string one = did(policy, page);
    said += one == "hit" ? "." : one;
  }
  return said;
}

}  // namespace

// Stack S from its bottom: B (LIR), D (gone), A (LIR), E (in memory, HIR); Q: E. The state of
// figure 2(a) of the LIRS paper, with room for two LIR pages and one HIR page.
static Lirs figure_2a() {
  Lirs lirs(3);
  CHECK(all(lirs, "ABDAE") == "---.D");
  return lirs;
}

TEST_CASE("LIRS: the four accesses of the paper's figure") {
  SUBCASE("to the LIR page B: D is pruned with it gone from the bottom") {
    Lirs lirs = figure_2a();
    CHECK(did(lirs, 'B') == "hit");
    CHECK(did(lirs, 'D') == "E");  // D is new again: HIR
    CHECK(did(lirs, 'C') == "D");  // and the first to go
  }
  SUBCASE("to the HIR page E in S: it becomes LIR, B leaves the set") {
    Lirs lirs = figure_2a();
    CHECK(did(lirs, 'E') == "hit");
    CHECK(did(lirs, 'C') == "B");
    CHECK(did(lirs, 'A') == "hit");
    CHECK(did(lirs, 'E') == "hit");
  }
  SUBCASE("to the gone page D in S: E goes, D becomes LIR, B is HIR") {
    Lirs lirs = figure_2a();
    CHECK(did(lirs, 'D') == "E");
    CHECK(did(lirs, 'C') == "B");
    CHECK(did(lirs, 'D') == "hit");
    CHECK(did(lirs, 'A') == "hit");
  }
  SUBCASE("to the unknown page C: E goes and C is HIR") {
    Lirs lirs = figure_2a();
    CHECK(did(lirs, 'C') == "E");
    CHECK(did(lirs, 'B') == "hit");
    CHECK(did(lirs, 'A') == "hit");
    CHECK(did(lirs, 'F') == "C");
  }
}

TEST_CASE("ARC: a scan passes through T1 and leaves T2 alone") {
  Arc arc(4);
  CHECK(all(arc, "ABAB") == "--..");  // T2 = A B
  CHECK(all(arc, "CDEFGH") == "--CDEF");
  CHECK(all(arc, "AB") == "..");
}

TEST_CASE("ARC: remembered pages move the target") {
  Arc arc(2);
  CHECK(all(arc, "AAB") == "-.-");  // T1 = B, T2 = A, p = 0
  CHECK(did(arc, 'C') == "B");      // T1 > p: B is remembered in B1
  CHECK(did(arc, 'B') == "A");      // hit in B1: p = 1, T1 = C is not above it, so T2 gives
  CHECK(did(arc, 'A') == "C");      // hit in B2: p = 0, T1 gives
  CHECK(all(arc, "BA") == "..");
}

TEST_CASE("S3-FIFO: one-hit wonders leave by the small queue, and return to the main one") {
  S3Fifo fifo(10);  // one page on trial, nine in the main queue
  CHECK(all(fifo, "ABCDEFGHIJ") == "----------");
  CHECK(did(fifo, 'K') == "A");  // the small queue is too long: its oldest goes, remembered
  CHECK(did(fifo, 'A') == "B");  // A comes back into the main queue
  CHECK(all(fifo, "CC") == "..");
  CHECK(did(fifo, 'L') == "D");  // C was referenced twice: to the main queue; D goes
  CHECK(all(fifo, "AC") == "..");
}

TEST_CASE("CLOCK spares what was referenced since the hand came by") {
  Clock clock(3);
  CHECK(all(clock, "ABCA") == "---.");
  CHECK(did(clock, 'D') == "B");  // the hand takes A's mark
  CHECK(did(clock, 'E') == "C");
  CHECK(did(clock, 'F') == "A");
}

TEST_CASE("LRU and MRU by hand") {
  Lru lru(3);
  CHECK(all(lru, "ABCADBE") == "---.BCA");
  Mru mru(3);
  CHECK(all(mru, "ABCADBE") == "---.A.B");
}

TEST_CASE(
    "Belady's example: nine of twelve references fault in three frames of FIFO, seven of OPT") {
  const std::vector<std::uint64_t> pages = {1, 2, 3, 4, 1, 2, 5, 1, 2, 3, 4, 5};
  auto opt = make_replacement("belady", 3);
  REQUIRE(opt.ok());
  REQUIRE((*opt)->append(pages).ok());
  CHECK((*opt)->misses().misses == 7);
  CHECK((*opt)->misses().evictions == 4);
}

TEST_CASE("a set of moments knows its largest") {
  MomentSet moments(300'000);
  std::set<std::uint64_t> truth;
  std::mt19937_64 random(1);
  for (int i = 0; i < 20'000; ++i) {
    const std::uint64_t moment = random() % 300'001;
    if (random() % 2 && truth.insert(moment).second) moments.add(moment);
    if (random() % 3 == 0 && !truth.empty()) {
      const std::uint64_t last = *truth.rbegin();
      REQUIRE(moments.largest() == last);
      moments.remove(last);
      truth.erase(last);
    }
    REQUIRE(moments.has(moment) == truth.contains(moment));
  }
}
