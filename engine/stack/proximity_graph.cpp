// SPDX-License-Identifier: Apache-2.0
#include "stack/proximity_graph.h"

#include <algorithm>

namespace stallscope::stack {

void ProximityGraph::reserve(std::uint32_t pages) {
  blocks_.reserve(pages);
  sizes_.reserve(pages);
  marks_.reserve(pages);
}

std::uint64_t ProximityGraph::bytes() const {
  return blocks_.bytes() + sizes_.bytes() + marks_.bytes() + edges_.capacity() * sizeof(Edge) +
         reached_.capacity() * 4;
}

void ProximityGraph::observe(std::uint32_t page, std::span<const std::uint32_t> window) {
  if (sizes_[page] == 0 && blocks_[page] == 0) {  // block 0 stays empty
    if (edges_.empty()) edges_.resize(degree_);
    blocks_[page] = static_cast<std::uint32_t>(edges_.size() / degree_);
    edges_.resize(edges_.size() + degree_);
  }
  Edge* const first = &edges_[std::size_t{blocks_[page]} * degree_];
  ++turn_;
  for (const std::uint32_t q : window) marks_[q] = turn_;
  Edge* last = first;
  for (Edge* edge = first; edge != first + sizes_[page]; ++edge) {
    const bool seen = marks_[edge->page] == turn_;
    edge->weight += seen ? 1u : -1u;
    if (seen) marks_[edge->page] = 0;  // not a candidate
    if (edge->weight > 0) *last++ = *edge;
  }
  std::stable_sort(first, last, [](const Edge& a, const Edge& b) { return a.weight > b.weight; });
  // Edges of weight 1 at the end were not in the window: those in it weigh at least 2.
  Edge* const heavy = std::find_if(first, last, [](const Edge& edge) { return edge.weight <= 1; });
  Edge* place = last;
  Edge* light = last;
  for (const std::uint32_t q : window) {
    if (q == page || marks_[q] != turn_) continue;
    if (place != first + degree_)
      *place++ = {q, 1};
    else if (light != heavy)
      *--light = {q, 1};
    else
      break;
  }
  sizes_[page] = static_cast<std::uint8_t>(place - first);
}

std::span<const std::uint32_t> ProximityGraph::reach(std::uint32_t page, std::uint32_t depth,
                                                     std::size_t most) {
  ++turn_;
  marks_[page] = turn_;
  reached_.assign(1, page);
  std::size_t begin = 0;
  for (std::uint32_t level = 0; level < depth; ++level) {
    const std::size_t end = reached_.size();
    for (; begin < end; ++begin)
      for (const Edge& edge : edges(reached_[begin])) {
        if (marks_[edge.page] == turn_) continue;
        if (reached_.size() > most) return std::span<const std::uint32_t>(reached_).subspan(1);
        marks_[edge.page] = turn_;
        reached_.push_back(edge.page);
      }
  }
  return std::span<const std::uint32_t>(reached_).subspan(1);
}

}  // namespace stallscope::stack
