// SPDX-License-Identifier: Apache-2.0
// Code that a running process made for itself: no file has it. Where it begins and ends and what it
// is called the process leaves in /tmp/perf-PID.map; its bytes are read out of its memory while it
// is there. Not thread-safe.
//
// Not followed: code that is moved, or replaced by other code at the same place, counts as what it
// was when a sample first fell there.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "sources/function_code.h"
#include "target/perf_map.h"

namespace stallscope::sources {

// As many bytes as asked for of a process's memory, or none.
using ReadBytes = std::function<std::vector<std::uint8_t>(pid_t process, std::uint64_t address,
                                                          std::size_t size)>;
std::vector<std::uint8_t> read_process(pid_t process, std::uint64_t address, std::size_t size);

class GeneratedCode {
 public:
  explicit GeneratedCode(pid_t process, std::string folder = "/tmp", ReadBytes read = read_process);

  // The function around an address; null when the map does not have it, or it cannot be read. The
  // map is read again when it has grown, but not more often than ten times a second of `time`.
  const FunctionCode* at(std::uint64_t address, std::uint64_t time);
  // What is known already.
  const FunctionCode* known(std::uint64_t address) const;
  // Names as the map has them now; while the process runs, or has just ended.
  target::PerfMap names() const;

 private:
  void refresh(std::uint64_t time);

  pid_t process_;
  std::string folder_;
  ReadBytes read_;
  std::uint64_t started_;  // the process, on the monotonic clock
  target::PerfMap map_;
  bool tried_ = false;
  std::uint64_t looked_ = 0;                                          // when
  std::map<std::uint64_t, std::unique_ptr<FunctionCode>> functions_;  // by start; null: unreadable
};

}  // namespace stallscope::sources
