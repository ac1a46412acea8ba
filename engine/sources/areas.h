// SPDX-License-Identifier: Apache-2.0
// The areas of memory that a trace touches, where nobody says what lies there. Memory is bounded:
// when there are too many pieces, they are looked at in larger ones.
#pragma once

#include <cstdint>
#include <unordered_set>
#include <utility>
#include <vector>

namespace stallscope::sources {

class Areas {
 public:
  static constexpr std::size_t kMostPieces = 1U << 17;

  struct Area {
    std::uint64_t start, size;
  };

  void touch(std::uint64_t address) {
    const std::uint64_t piece = address >> shift_;
    if (piece == last_) return;
    last_ = piece;
    if (pieces_.insert(piece).second && pieces_.size() > kMostPieces) coarsen();
  }
  // Not told by found(), since it has a name.
  void leave_out(std::uint64_t start, std::uint64_t end) { known_.emplace_back(start, end); }

  // By ascending address. Pieces less than kGap apart are one area.
  std::vector<Area> found() const;

 private:
  static constexpr std::uint64_t kGap = 64U << 10;
  void coarsen();
  bool is_known(std::uint64_t address) const;

  std::unordered_set<std::uint64_t> pieces_;
  std::vector<std::pair<std::uint64_t, std::uint64_t>> known_;
  std::uint64_t last_ = ~std::uint64_t{0};
  unsigned shift_ = 12;
};

}  // namespace stallscope::sources
