// SPDX-License-Identifier: Apache-2.0
// Reuse distances and curves against a list that is searched from its top.
#include <doctest.h>

#include <algorithm>
#include <list>
#include <random>

#include "stack/lru_stack.h"

using namespace stallscope;
using namespace stallscope::stack;
using Numbers = std::vector<std::uint64_t>;

namespace {

std::vector<std::uint32_t> distances_by_search(const Numbers& pages) {
  std::list<std::uint64_t> stack;
  std::vector<std::uint32_t> distances;
  for (const std::uint64_t page : pages) {
    const auto found = std::find(stack.begin(), stack.end(), page);
    distances.push_back(found == stack.end()
                            ? kCold
                            : static_cast<std::uint32_t>(std::distance(stack.begin(), found)));
    if (found != stack.end()) stack.erase(found);
    stack.push_front(page);
  }
  return distances;
}

Numbers random_pages(std::uint64_t seed, std::size_t size, std::uint64_t pages) {
  std::mt19937_64 random(seed);
  Numbers drawn(size);
  for (auto& page : drawn) page = random() % (1 + random() % pages);
  return drawn;
}

}  // namespace

TEST_CASE("reuse distances are those of a stack that is searched") {
  for (const std::uint64_t pages : {1u, 2u, 50u, 3000u}) {
    CAPTURE(pages);
    const Numbers references = random_pages(pages, 20'000, pages);
    std::vector<std::uint32_t> distances(references.size());
    LruStack stack;
    REQUIRE(stack.append(references, distances.data()).ok());
    CHECK(distances == distances_by_search(references));
  }
}

TEST_CASE("distances stay right when moments are renumbered and counts cross every level") {
  // 1.5 million pages and 9 million references: beyond an area, with several renumberings.
  constexpr std::uint64_t kPages = 1'500'000;
  LruStack stack;
  Numbers sweep(kPages);
  for (std::uint64_t i = 0; i < kPages; ++i) sweep[i] = i * 512;
  for (int turn = 0; turn < 3; ++turn) REQUIRE(stack.append(sweep).ok());
  std::reverse(sweep.begin(), sweep.end());
  std::vector<std::uint32_t> distances(kPages);
  REQUIRE(stack.append(sweep, distances.data()).ok());
  // A sweep back meets its pages in the order of the stack: distance i at step i.
  bool in_order = true;
  for (std::uint32_t i = 0; i < kPages; ++i) in_order &= distances[i] == i;
  CHECK(in_order);
  REQUIRE(stack.append(sweep, distances.data()).ok());
  CHECK(std::count(distances.begin(), distances.end(), kPages - 1) == kPages);
  CHECK(stack.distinct() == kPages);
  CHECK(stack.bytes() <= 64 * kPages);
}

TEST_CASE("batches of any size give the same curve") {
  const Numbers references = random_pages(3, 30'000, 900);
  LruStack whole;
  REQUIRE(whole.append(references).ok());
  LruStack pieces;
  std::mt19937_64 random(4);
  for (std::size_t i = 0; i < references.size();) {
    const std::size_t n = std::min<std::size_t>(random() % 90, references.size() - i);
    REQUIRE(pieces.append({references.data() + i, n}).ok());
    i += n;
  }
  CHECK(pieces.counts().curve() == whole.counts().curve());
  CHECK(pieces.pages() == whole.pages());
}

TEST_CASE("the curve begins with every reference and ends with the first ones") {
  LruStack stack;
  REQUIRE(stack.append(Numbers{1, 2, 3, 1, 2, 3, 3}).ok());
  CHECK(stack.counts().curve() == Numbers{7, 6, 6, 3});
  CHECK(stack.pages() == Numbers{3, 2, 1});
  CHECK(LruStack().counts().curve() == Numbers{0});
}

TEST_CASE("epochs part the curve and leave the stack alone") {
  LruStack stack(2);
  REQUIRE(stack.append(Numbers{1, 2, 1}).ok());
  stack.end_epoch();
  REQUIRE(stack.append(Numbers{2, 2, 3}).ok());
  CHECK(stack.counts().epoch_curve() == Numbers{3, 2, 1, 1});
  stack.end_epoch();
  CHECK(stack.counts().epoch_curve() == Numbers{0, 0, 0, 0});
  CHECK(stack.counts().curve() == Numbers{6, 5, 3, 3});
  CHECK(*stack.counts().ended_curve(0) == Numbers{3, 2, 1, 1});
  CHECK(*stack.counts().ended_curve(1) == Numbers{3, 3, 2});
  stack.end_epoch();
  CHECK(stack.counts().epochs() == 3);
  CHECK(stack.counts().kept() == 2);
  CHECK(*stack.counts().ended_curve(1) == Numbers{3, 2, 1, 1});
  const auto missing = stack.counts().ended_curve(2);
  REQUIRE(!missing.ok());
  CHECK(missing.error().what == "there is no epoch 2 back");
}

TEST_CASE("a page table finds what was added and not removed") {
  PageTable table;
  std::mt19937_64 random(5);
  std::vector<std::uint32_t> kept(4000);  // by page; 0: not there
  for (int i = 0; i < 100'000; ++i) {
    const std::uint64_t number = random() % kept.size();
    const std::uint64_t page = number << 40 | number % 7;
    if (random() % 3 == 0) {
      if (kept[number] == 0) continue;
      table.remove(table.find(page));
      kept[number] = 0;
    } else {
      kept[number] = static_cast<std::uint32_t>(1 + i);
      table.find_or_add(page)->value = kept[number];
    }
  }
  for (std::uint64_t number = 0; number < kept.size(); ++number) {
    const PageTable::Entry* entry = table.find(number << 40 | number % 7);
    CHECK((entry ? entry->value : 0) == kept[number]);
  }
}
