// SPDX-License-Identifier: Apache-2.0
// Hardware prefetchers. One is attached to one cache and sees that cache's demand misses and the
// first use of each line that it brought (so that a stream, once found, keeps going).
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

namespace stallscope::machine {

class Prefetcher {
 public:
  virtual ~Prefetcher() = default;
  // Appends the lines to bring, in order. Lines are virtual line numbers of the cache; the machine
  // drops those that are there already, and those outside the 4 KiB page of `line` unless the
  // prefetcher crosses pages.
  virtual void observe(std::uint64_t line, std::vector<std::uint64_t>& wanted) = 0;
};

struct PrefetcherEntry {
  std::string_view name;
  std::string_view description;
  // `page_lines` is the number of the cache's lines in a page (at least 1).
  std::unique_ptr<Prefetcher> (*make)(std::uint32_t degree, std::uint64_t page_lines);
};

// The only list of prefetchers ("none" is the absence of one and stands first).
std::span<const PrefetcherEntry> prefetchers();
const PrefetcherEntry* find_prefetcher(std::string_view name);  // nullptr when there is none

}  // namespace stallscope::machine
