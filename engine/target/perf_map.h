// SPDX-License-Identifier: Apache-2.0
// Names of code that was made at run time, as compilers leave them for profilers: a text file
// /tmp/perf-PID.map with lines of start, size (both hexadecimal) and name.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace stallscope::target {

class PerfMap {
 public:
  PerfMap() = default;
  // Whatever is no such line is left out. Of two entries with one start the later counts.
  explicit PerfMap(std::string text);

  // The file of one process, or none: /tmp is everybody's, so only a regular file of our own user
  // that was written while the process ran is believed. The times are of the monotonic clock; 0 as
  // the end: not known.
  static PerfMap of_process(std::uint64_t pid, std::uint64_t started_ns, std::uint64_t ended_ns,
                            const std::string& folder = "/tmp");

  std::string_view name(std::uint64_t address) const;  // empty when there is none
  // Where the code around an address begins and ends.
  std::optional<std::pair<std::uint64_t, std::uint64_t>> range(std::uint64_t address) const;
  bool empty() const { return entries_.empty(); }

 private:
  struct Entry {
    std::uint64_t start, end;
    std::size_t name, length;  // in text_, which may move with this object
  };
  const Entry* find(std::uint64_t address) const;

  std::string text_;
  std::vector<Entry> entries_;  // by start
};

}  // namespace stallscope::target
