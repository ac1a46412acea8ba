// SPDX-License-Identifier: Apache-2.0
#include "machine/first_touches.h"

namespace stallscope::machine {

void FirstTouches::map(std::uint64_t address, std::uint64_t length, bool file) {
  if (length == 0) return;
  const std::uint64_t end = address + (length - 1);
  const std::uint64_t first = address >> bits_, last = (end < address ? ~0ULL : end) >> bits_;
  forget(first, last);
  cut(first, last);
  if (file) files_[first] = last;
}

bool FirstTouches::of_file(std::uint64_t page) const {
  const auto behind = files_.upper_bound(page);
  return behind != files_.begin() && page <= std::prev(behind)->second;
}

// By whichever is fewer, pages of the range or pages that were touched: programs reserve terabytes.
void FirstTouches::forget(std::uint64_t first, std::uint64_t last) {
  if (last - first < touched_.size()) {
    for (std::uint64_t page = first; page <= last; ++page) touched_.erase(page);
    return;
  }
  std::vector<std::uint64_t> gone;
  touched_.for_each([&](std::uint64_t page, bool) {
    if (first <= page && page <= last) gone.push_back(page);
  });
  for (const std::uint64_t page : gone) touched_.erase(page);
}

// What is left of files in front of the range and behind it.
void FirstTouches::cut(std::uint64_t first, std::uint64_t last) {
  auto at = files_.upper_bound(first);
  if (at != files_.begin()) --at;
  while (at != files_.end() && at->first <= last) {
    const auto [begin, end] = *at;
    if (end < first) {
      ++at;
      continue;
    }
    at = files_.erase(at);
    if (begin < first) files_[begin] = first - 1;
    if (last < end) files_[last + 1] = end;
  }
}

}  // namespace stallscope::machine
