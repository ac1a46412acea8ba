// SPDX-License-Identifier: Apache-2.0
// Next line: each miss, and each first use of a line brought, brings the lines that follow
// (tagged prefetching, Smith 1982).
#pragma once

#include "machine/prefetcher.h"

namespace stallscope::machine {

class NextLine : public Prefetcher {
 public:
  NextLine(std::uint32_t degree, std::uint64_t) : degree_(degree) {}
  void observe(std::uint64_t line, std::vector<std::uint64_t>& wanted) override {
    for (std::uint32_t i = 1; i <= degree_; ++i) wanted.push_back(line + i);
  }

 private:
  std::uint32_t degree_;
};

}  // namespace stallscope::machine
