// SPDX-License-Identifier: Apache-2.0
// Each policy on the example by which it is taught.
#include <doctest.h>

#include <algorithm>
#include <string>

#include "machine_words.h"

using namespace stallscope;
using namespace stallscope::machine;
using words::cache;
using words::load;
using words::of;

namespace {

// One set; lines are named by single characters. The answer has H or M for each access.
std::string hits_and_misses(const char* policy, std::uint32_t ways, const std::string& lines,
                            std::uint64_t seed = 1) {
  MachineConfig config = of({cache("set", 1, ways)});
  config.caches[0].policy = policy;
  config.seed = seed;
  auto machine = make_machine(config);
  REQUIRE(machine.ok());
  std::string outcome;
  for (const char line : lines) {
    const std::uint64_t before = (*machine)->cache_counters(0).missed();
    load(**machine, static_cast<std::uint64_t>(line) * 64);
    outcome += (*machine)->cache_counters(0).missed() > before ? 'M' : 'H';
  }
  return outcome;
}

auto misses(const std::string& outcome) { return std::count(outcome.begin(), outcome.end(), 'M'); }

}  // namespace

TEST_CASE("the textbook's reference string faults 12 times under lru and 15 times under fifo") {
  const std::string string = "70120304230321201701";
  CHECK(misses(hits_and_misses("lru", 3, string)) == 12);
  CHECK(misses(hits_and_misses("fifo", 3, string)) == 15);
}

TEST_CASE("fifo shows Belady's anomaly, lru does not") {
  const std::string string = "123412512345";
  CHECK(misses(hits_and_misses("fifo", 3, string)) == 9);
  CHECK(misses(hits_and_misses("fifo", 4, string)) == 10);
  CHECK(misses(hits_and_misses("lru", 3, string)) == 10);
  CHECK(misses(hits_and_misses("lru", 4, string)) == 8);
}

TEST_CASE("plru evicts where the turns point, which is not always the least recently used") {
  // After A B C D the tree points at A; the access to A turns it to C, while B is the oldest.
  CHECK(hits_and_misses("plru", 4, "ABCDAEB") == "MMMMHMH");
  CHECK(hits_and_misses("plru", 4, "ABCDAEC") == "MMMMHMM");
  CHECK(hits_and_misses("lru", 4, "ABCDAEB") == "MMMMHMM");
  CHECK(hits_and_misses("plru", 2, "ABACBCA") == hits_and_misses("lru", 2, "ABACBCA"));
}

TEST_CASE("srrip keeps a small working set through a scan that empties lru") {
  // The mixed pattern of the paper: a1 a2 used twice, a scan b1 b2 b3 b4, then a1 a2 again.
  CHECK(hits_and_misses("srrip", 4, "1221678912") == "MMHHMMMMHH");
  CHECK(hits_and_misses("lru", 4, "1221678912") == "MMHHMMMMMM");
}

TEST_CASE("random replacement repeats with its seed and reaches every way") {
  std::string lines;
  for (int i = 0; i < 400; ++i) lines += static_cast<char>('A' + i * 7 % 11);
  CHECK(hits_and_misses("random", 4, lines, 5) == hits_and_misses("random", 4, lines, 5));
  CHECK(hits_and_misses("random", 4, lines, 5) != hits_and_misses("random", 4, lines, 6));
  const auto hits = static_cast<long>(lines.size()) - misses(hits_and_misses("random", 4, lines));
  CHECK(hits > 0);  // a cyclic walk over 11 lines never hits under lru or fifo
  CHECK(misses(hits_and_misses("lru", 4, lines)) == 400);
}

TEST_CASE("the registry finds each policy by its name and no other") {
  for (const PolicyEntry& policy : policies()) {
    CHECK(find_policy(policy.name) == &policy);
    CHECK(!policy.description.empty());
  }
  CHECK(find_policy("LRU") == nullptr);
  CHECK(find_policy("") == nullptr);
}
