// SPDX-License-Identifier: Apache-2.0
// The page proximity graph: an edge (p, q) says that q was referenced shortly after p, its weight
// how often that was seen. A page has at most so many edges.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "stack/growing.h"
#include "stack/policy.h"

namespace stallscope::stack {

struct Edge {
  std::uint32_t page;
  std::uint32_t weight;
};

class ProximityGraph {
 public:
  explicit ProximityGraph(std::uint32_t degree) : degree_(degree) {}

  // `window` is what followed the last reference to `page`, the nearest first. Edges into it gain
  // 1, the page's other edges lose 1 and go at 0; then pages of the window without an edge get one
  // of weight 1, in a free place or in that of the lightest edge if that weighs no more than 1 and
  // was not in the window.
  void observe(std::uint32_t page, std::span<const std::uint32_t> window);

  std::span<const Edge> edges(std::uint32_t page) const {
    return {edges_.data() + std::size_t{blocks_[page]} * degree_, sizes_[page]};
  }
  // Pages met breadth-first from `page` (heavier edges first) down to `depth`, without itself, at
  // most `most`. The span holds until the next call.
  std::span<const std::uint32_t> reach(std::uint32_t page, std::uint32_t depth, std::size_t most);

  void reserve(std::uint32_t pages);
  std::uint64_t bytes() const;

 private:
  std::uint32_t degree_;
  Growing<std::uint32_t> blocks_;  // where a page's edges are; those without have a size of 0
  Growing<std::uint8_t> sizes_;
  std::vector<Edge> edges_;
  // Marks are current when they equal the turn: no clearing between calls.
  Growing<std::uint32_t> marks_;
  std::uint32_t turn_ = 0;
  std::vector<std::uint32_t> reached_;
};

}  // namespace stallscope::stack
