// SPDX-License-Identifier: Apache-2.0
// Stride: per page, the distance between the last two lines seen; seen twice in a row it is
// followed. Indexed by page, not by instruction: an access carries no instruction address here, so
// strides longer than a page are not found.
#pragma once

#include <array>

#include "machine/prefetcher.h"

namespace stallscope::machine {

class Stride : public Prefetcher {
 public:
  Stride(std::uint32_t degree, std::uint64_t page_lines)
      : degree_(degree), page_lines_(page_lines) {}

  void observe(std::uint64_t line, std::vector<std::uint64_t>& wanted) override {
    const std::uint64_t page = line / page_lines_;
    Entry& entry = entries_[page % kEntries];
    if (entry.page != page) {
      entry = {page, line, 0};
      return;
    }
    const auto stride = static_cast<std::int64_t>(line - entry.last);
    if (stride == 0) return;
    if (stride == entry.stride)
      for (std::uint32_t i = 1; i <= degree_; ++i)
        wanted.push_back(line + static_cast<std::uint64_t>(stride) * i);
    entry = {page, line, stride};
  }

 private:
  static constexpr std::uint32_t kEntries = 64;
  struct Entry {
    std::uint64_t page = ~std::uint64_t{0};
    std::uint64_t last = 0;
    std::int64_t stride = 0;
  };
  std::uint32_t degree_;
  std::uint64_t page_lines_;
  std::array<Entry, kEntries> entries_{};
};

}  // namespace stallscope::machine
