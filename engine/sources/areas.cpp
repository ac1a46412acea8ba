// SPDX-License-Identifier: Apache-2.0
#include "sources/areas.h"

#include <algorithm>

namespace stallscope::sources {

void Areas::coarsen() {
  while (pieces_.size() > kMostPieces / 2) {
    shift_ += 2;
    std::unordered_set<std::uint64_t> larger;
    for (const std::uint64_t piece : pieces_) larger.insert(piece >> 2);
    pieces_ = std::move(larger);
  }
  last_ = ~std::uint64_t{0};
}

bool Areas::is_known(std::uint64_t address) const {
  return std::any_of(known_.begin(), known_.end(), [&](const auto& range) {
    return range.first <= address && address < range.second;
  });
}

std::vector<Areas::Area> Areas::found() const {
  std::vector<std::uint64_t> pieces(pieces_.begin(), pieces_.end());
  std::sort(pieces.begin(), pieces.end());
  const std::uint64_t bytes = std::uint64_t{1} << shift_;
  std::vector<Area> areas;
  for (const std::uint64_t piece : pieces) {
    const std::uint64_t start = piece << shift_;
    if (is_known(start)) continue;
    if (!areas.empty() && start - (areas.back().start + areas.back().size) < std::max(kGap, bytes))
      areas.back().size = start + bytes - areas.back().start;
    else
      areas.push_back({start, bytes});
  }
  return areas;
}

}  // namespace stallscope::sources
