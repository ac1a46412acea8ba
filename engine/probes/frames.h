// SPDX-License-Identifier: Apache-2.0
// Whose part of a stack an address lies in. Follows the frames of every thread by the return
// addresses that calls push and returns take: a frame reaches from its return address down to that
// of the function that it calls.
//
// A function is known by its first memory operation. What was on a stack before the first call that
// was seen (the arguments and environment of a process, the beginning of a forked child) is in no
// frame. A function that is jumped to instead of called works in the frame of the one that jumped;
// frames that longjmp leaves end with the next call or return above them.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "stallscope_tables.h"

namespace stallscope::probes {

class Frames {
 public:
  enum class Step : std::uint8_t { none, call, back };  // what a memory operation does to frames

  void run(std::uint32_t thread) { now_ = &stacks_[thread]; }
  void exit(std::uint32_t thread);

  // Before an operation accesses anything.
  void at(std::uint32_t operation) {
    if (!now_->empty() && now_->back().operation == kNone32) now_->back().operation = operation;
  }
  // A return address was pushed here, or taken from here.
  void call(std::uint64_t address) {
    leave(address);
    now_->push_back({address, kNone32});
  }
  void leave(std::uint64_t address) {
    while (!now_->empty() && now_->back().top <= address) now_->pop_back();
  }

  // The first memory operation of the function in whose frame an address of a stack lies; kNone32
  // when it lies in none.
  std::uint32_t find(std::uint64_t address) const;

 private:
  struct Frame {
    std::uint64_t top;  // where its return address is
    std::uint32_t operation;
  };
  using Stack = std::vector<Frame>;  // outermost first, so from high addresses to low ones

  const Stack* stack_of(std::uint64_t address) const;

  std::unordered_map<std::uint32_t, Stack> stacks_;  // by thread
  Stack* now_ = &stacks_[0];
};

}  // namespace stallscope::probes
