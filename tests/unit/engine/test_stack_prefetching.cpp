// SPDX-License-Identifier: Apache-2.0
// The page proximity graph by hand, and what prefetching makes of it.
#include <doctest.h>

#include <vector>

#include "stack/prefetching.h"
#include "stack/proximity_graph.h"

using namespace stallscope::stack;
using Pages = std::vector<std::uint32_t>;

namespace {

std::string edges(const ProximityGraph& graph, std::uint32_t page) {
  std::string text;
  for (const Edge& edge : graph.edges(page))
    text += std::to_string(edge.page) + ":" + std::to_string(edge.weight) + " ";
  return text;
}

Pages reach(ProximityGraph& graph, std::uint32_t page, std::uint32_t depth, std::size_t most) {
  const auto found = graph.reach(page, depth, most);
  return {found.begin(), found.end()};
}

}  // namespace

TEST_CASE("edges gain in the window, lose outside of it, and only the lightest make room") {
  ProximityGraph graph(3);
  graph.reserve(10);
  CHECK(edges(graph, 1) == "");
  graph.observe(1, Pages{2, 3, 4, 5});
  CHECK(edges(graph, 1) == "2:1 3:1 4:1 ");
  graph.observe(1, Pages{3, 2});
  CHECK(edges(graph, 1) == "2:2 3:2 ");  // 4 fell to nothing
  graph.observe(1, Pages{3, 6});
  CHECK(edges(graph, 1) == "3:3 2:1 6:1 ");
  graph.observe(1, Pages{3, 2, 7});
  CHECK(edges(graph, 1) == "3:4 2:2 7:1 ");  // 6 fell to nothing, 7 took its place
  graph.observe(1, Pages{7, 8, 9});
  CHECK(edges(graph, 1) == "3:3 7:2 8:1 ");  // 2 weighed one and made room for 8, nothing for 9
  graph.observe(1, Pages{});
  CHECK(edges(graph, 1) == "3:2 7:1 ");
}

TEST_CASE("the graph is walked breadth first, heavy edges first, each page once") {
  ProximityGraph graph(2);
  graph.reserve(10);
  graph.observe(1, Pages{2, 3});
  graph.observe(1, Pages{3});
  graph.observe(1, Pages{2, 3});
  graph.observe(2, Pages{4, 1});
  graph.observe(3, Pages{5, 4});
  graph.observe(5, Pages{6});
  CHECK(reach(graph, 1, 1, 64) == Pages{3, 2});
  CHECK(reach(graph, 1, 2, 64) == Pages{3, 2, 5, 4});
  CHECK(reach(graph, 1, 3, 64) == Pages{3, 2, 5, 4, 6});
  CHECK(reach(graph, 1, 3, 3) == Pages{3, 2, 5});
  CHECK(reach(graph, 9, 3, 64) == Pages{});
}

TEST_CASE("what follows in another order than addresses is for the proximity graph") {
  // 400 pages in a fixed order without neighbours, round and round, with memory for a quarter.
  std::vector<std::uint64_t> pages;
  for (int turn = 0; turn < 20; ++turn)
    for (std::uint64_t i = 0; i < 400; ++i) pages.push_back(i * 7919 % 400 * 1000);
  PrefetchOptions options{.kind = "proximity", .memory = 100};
  auto proximity = Prefetching::make(options);
  options.kind = "spatial";
  auto spatial = Prefetching::make(options);
  proximity->append(pages);
  spatial->append(pages);
  CHECK(spatial->counts().faults == 8000);
  CHECK(spatial->counts().prefetched == 0);
  CHECK(proximity->counts().faults < 2000);
  CHECK(proximity->counts().used > 0.9 * proximity->counts().prefetched);
  CHECK(proximity->counts().faults_without == 8000);
}

TEST_CASE("a sweep is for spatial prefetching") {
  std::vector<std::uint64_t> pages;
  for (int turn = 0; turn < 10; ++turn)
    for (std::uint64_t i = 0; i < 1000; ++i) pages.push_back(i);
  auto spatial = Prefetching::make({.kind = "spatial", .memory = 800});
  spatial->append(pages);
  CHECK(spatial->counts().faults_without == 10'000);
  CHECK(spatial->counts().cold == 1000);
  CHECK(spatial->counts().faults < 1000 + 9 * 1000 / 60 + 10);
}
