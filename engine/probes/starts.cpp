// SPDX-License-Identifier: Apache-2.0
#include "probes/starts.h"

#include <iterator>

namespace stallscope::probes {

void Starts::erase(std::uint64_t start, std::uint64_t size) {
  for (auto at = starts_.lower_bound(start); at != starts_.end() && at->first - start < size;)
    at = at->second.size <= size - (at->first - start) ? starts_.erase(at) : std::next(at);
}

const Start* Starts::find(std::uint64_t address) const {
  // Those that lie on top of a larger one begin behind it, so they are met first.
  auto at = starts_.upper_bound(address);
  constexpr int kMostOnTop = 64;
  for (int i = 0; at != starts_.begin() && i < kMostOnTop; ++i) {
    --at;
    if (address - at->second.address < at->second.size) return &at->second;
  }
  return nullptr;
}

}  // namespace stallscope::probes
