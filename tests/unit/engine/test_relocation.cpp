// SPDX-License-Identifier: Apache-2.0
// Heap blocks moved as a policy of the near allocator says.
#include <doctest.h>

#include <vector>

#include "session/relocation.h"
#include "stallscope_records.h"

using namespace stallscope;
using namespace stallscope::session;

namespace {

constexpr std::uint64_t kHeap = 0x10000;
const std::string kHead = "stallscope-near-policy 1\n";

using Words = std::vector<std::uint64_t>;

Words alloc(std::uint64_t address, std::uint64_t size, std::uint64_t site,
            std::uint64_t kind = SS_ALLOC_KIND_MALLOC, std::uint64_t old = 0) {
  return {SS_HEAD(SS_ALLOC, 7, 1), 0, address, size, site, kind, old};
}
Words freed(std::uint64_t address) { return {SS_HEAD(SS_FREE, 3, 1), 0, address}; }
Words heap(std::uint64_t bytes) { return {SS_HEAD(SS_BRK, 4, 1), 0, kHeap, kHeap + bytes}; }

std::unique_ptr<Relocation> made(const std::string& rules, const std::vector<Words>& records) {
  auto relocation = Relocation::make({kHead + rules, {{1, "ab", 0x10}, {2, "ab", 0x20}}});
  REQUIRE(relocation);
  for (const Words& words : records)
    (*relocation)
        ->foresee(SS_HEAD_TAG(words[0]), words.data(), static_cast<std::uint32_t>(words.size()));
  (*relocation)->ready();
  return std::move(*relocation);
}

std::uint64_t told(Relocation& relocation, Words words) {
  relocation.on_record(SS_HEAD_TAG(words[0]), words);
  return words[2];
}

}  // namespace

TEST_CASE("gaps are memory that no block which stays ever had") {
  Gaps gaps;
  gaps.had(100, 50, false);
  gaps.had(150, 50, false);
  gaps.had(120, 10, true);
  gaps.had(190, 100, true);
  gaps.had(300, 10, false);
  gaps.close();
  for (const auto& [address, inside] : std::vector<std::pair<std::uint64_t, bool>>{{99, false},
                                                                                   {100, true},
                                                                                   {119, true},
                                                                                   {120, false},
                                                                                   {129, false},
                                                                                   {130, true},
                                                                                   {189, true},
                                                                                   {190, false},
                                                                                   {250, false},
                                                                                   {300, true},
                                                                                   {310, false}})
    CHECK(gaps.contains(address) == inside);
  CHECK(gaps.below(100) == 0);
  CHECK(gaps.below(110) == 10);
  CHECK(gaps.below(125) == 20);
  CHECK(gaps.below(190) == 80);
  CHECK(gaps.below(1000) == 90);
}

TEST_CASE("packed blocks lie together for their life, and what malloc did to them is gone") {
  const std::vector<Words> blocks = {heap(4096), alloc(kHeap + 16, 24, 1), alloc(kHeap + 48, 24, 2),
                                     alloc(kHeap + 80, 24, 1)};
  auto relocation = made("site ab+0x10 packed\n", blocks);
  told(*relocation, blocks[0]);
  CHECK(relocation->moved(kHeap + 16) == SS_NO_ADDRESS);  // not made yet: malloc's business
  const std::uint64_t first = told(*relocation, blocks[1]);
  const std::uint64_t left = told(*relocation, blocks[2]);
  const std::uint64_t second = told(*relocation, blocks[3]);
  CHECK(second == first + 24);
  CHECK(left == kHeap + 16);  // moved on over the memory of the first
  CHECK(relocation->moved(kHeap + 20) == first + 4);
  CHECK(relocation->moved(kHeap + 48) == left);
  CHECK(relocation->moved(kHeap + 80 + 23) == second + 23);
  CHECK(relocation->moved(kHeap + 8) == SS_NO_ADDRESS);  // a header
  CHECK(relocation->moved(kHeap + 200) == kHeap + 200 - 64);
  CHECK(relocation->moved(kHeap - 8) == kHeap - 8);
  CHECK(relocation->moved(SS_NO_ADDRESS) == SS_NO_ADDRESS);
  CHECK(told(*relocation, freed(kHeap + 16)) == first);
  // What free does to the block, the near allocator does to what it knows.
  for (const std::uint64_t address : {kHeap + 8, kHeap + 16, kHeap + 24}) {
    CHECK(relocation->moved(address) >= kKnowledge);
    CHECK(relocation->moved(address) < kKnowledge + 144);
  }
  CHECK(relocation->moved(kHeap + 72) == SS_NO_ADDRESS);  // of another block
  CHECK(told(*relocation, alloc(kHeap + 16, 24, 1)) == first);
  CHECK(relocation->blocks() == 3);
}

TEST_CASE("large blocks begin at their lines, one after the other") {
  const std::vector<Words> blocks = {heap(1 << 20), alloc(kHeap + 16, 5000, 1),
                                     alloc(kHeap + 5040, 5000, 1), alloc(kHeap + 10064, 5000, 1),
                                     alloc(kHeap + 20000, 24, 1)};
  auto relocation = made("site ab+0x10 line 60 step 3\n", blocks);
  for (const std::uint64_t line : {60, 63, 2}) {
    const std::uint64_t at = told(*relocation, blocks[line == 60 ? 1 : line == 63 ? 2 : 3]);
    CHECK(at / 64 % 64 == line);
    CHECK(at % 64 == 0);
  }
  CHECK(told(*relocation, blocks[4]) == kHeap + 20000);  // small, and not packed
  CHECK(relocation->moved(kHeap + 17000) == kHeap + 17000);
}

TEST_CASE("what is not malloc's stays, and so does what realloc took from malloc") {
  const std::vector<Words> blocks = {heap(4096), alloc(kHeap + 16, 24, 1, SS_ALLOC_KIND_NEW),
                                     alloc(kHeap + 48, 24, 2),
                                     alloc(kHeap + 48, 32, 1, SS_ALLOC_KIND_REALLOC, kHeap + 48)};
  auto relocation = made("site ab+0x10 packed\n", blocks);
  CHECK(told(*relocation, blocks[1]) == kHeap + 16);
  CHECK(told(*relocation, blocks[2]) == kHeap + 48);
  CHECK(told(*relocation, freed(kHeap + 48)) == kHeap + 48);
  CHECK(told(*relocation, blocks[3]) == kHeap + 48);
  CHECK(relocation->blocks() == 0);
}

TEST_CASE("a placed block that realloc takes is placed again") {
  const std::vector<Words> blocks = {heap(4096), alloc(kHeap + 16, 24, 1),
                                     alloc(kHeap + 16, 32, 1, SS_ALLOC_KIND_REALLOC, kHeap + 16)};
  auto relocation = made("site ab+0x10 packed\n", blocks);
  CHECK(told(*relocation, blocks[1]) > kHeap + 4096);
  told(*relocation, freed(kHeap + 16));
  CHECK(told(*relocation, blocks[2]) > kHeap + 4096);
  CHECK(relocation->blocks() == 2);
}

TEST_CASE("a wrong policy is refused with its line") {
  const auto refused = Relocation::make({kHead + "site ab+0x10 loose\n", {}});
  REQUIRE(!refused);
  CHECK(refused.error().what == "the policy is wrong in line 2");
  CHECK(!Relocation::make({"", {}}));
}

TEST_CASE("records that are cut short move nothing") {
  auto relocation = made("site ab+0x10 packed\n", {});
  Words words = {SS_HEAD(SS_ALLOC, 7, 1), 0};
  relocation->foresee(SS_ALLOC, words.data(), 2);
  relocation->on_record(SS_ALLOC, words);
  CHECK(words.size() == 2);
}
