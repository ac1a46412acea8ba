// SPDX-License-Identifier: Apache-2.0
// The target's threads: names, life spans, turns, instructions.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "stallscope_tables.h"

namespace stallscope::target {

class Threads {
 public:
  struct Thread {
    std::uint32_t number = 0;
    std::uint32_t lwp = 0;
    std::uint32_t parent = 0;
    std::string name;
    std::uint64_t started = 0;
    std::uint64_t ended = kNever;
    std::uint64_t instructions = 0;
    std::uint64_t turns = 0;
    std::uint64_t stack_pointer = 0;
  };

  void start(Thread thread);
  void exit(std::uint32_t number, std::uint64_t when);
  void rename(std::uint32_t number, std::string_view name);
  void run(std::uint32_t number, std::uint64_t when);  // from here on `number` has the processor
  void finish(std::uint64_t when);                     // the last turn ends

  const std::vector<Thread>& all() const { return threads_; }
  const Thread* find(std::uint32_t number) const;
  void fill(ThreadTable& table) const;

 private:
  Thread* find(std::uint32_t number);
  std::vector<Thread> threads_;  // by ascending number
  std::uint32_t running_ = 0;
  std::uint64_t turn_started_ = 0;
};

}  // namespace stallscope::target
