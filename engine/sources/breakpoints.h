// SPDX-License-Identifier: Apache-2.0
// Words of a process that runs already, under breakpoints of the processor. The kernel tells of
// each access afterwards and holds nothing up: what a word held then is not known, the registers
// are.
//
// Every thread gets its own breakpoints; one that comes between two polls is missed until the next.
// Single thread.
#pragma once

#include <sys/types.h>

#include <array>
#include <cstdint>
#include <map>
#include <vector>

#include "base/result.h"
#include "sources/perf_ring.h"

namespace stallscope::sources {

// 1, 2, 4 or 8 bytes, aligned to their number.
struct WatchedWord {
  std::uint64_t start;
  std::uint32_t bytes;
  bool reads;  // too; the processor cannot watch reads alone
};

struct WordHit {
  static constexpr std::size_t kRegisters = 17;
  std::uint64_t time;  // of the monotonic clock
  std::uint64_t ip;    // behind the instruction
  std::uint32_t word;  // which, in the order that they were given
  std::uint32_t tid;
  std::array<std::uint64_t, kRegisters> registers;  // ax bx cx dx si di bp sp ip r8..r15
};

class Breakpoints {
 public:
  static constexpr std::size_t kMost = 4;

  Breakpoints(Breakpoints&&) = default;
  Breakpoints(const Breakpoints&) = delete;

  // An error when the kernel lets us watch no thread of the process.
  static Result<Breakpoints> set(pid_t process, std::vector<WatchedWord> words);

  // What was accessed since the last poll, in the order of time.
  std::vector<WordHit> poll();
  std::uint64_t lost() const { return lost_; }  // hits for which a ring had no room

 private:
  struct Thread {
    Descriptor anchor;  // holds the ring that all its breakpoints write to
    Ring ring;
    std::vector<Descriptor> events;
  };
  Breakpoints(pid_t process, std::vector<WatchedWord> words)
      : process_(process), words_(std::move(words)) {}
  int follow_threads();  // 0, or why the last one could not be watched
  int watch(pid_t thread);
  void take(std::span<const std::byte> bytes, std::vector<WordHit>& hits);

  pid_t process_;
  std::vector<WatchedWord> words_;
  std::map<pid_t, Thread> threads_;
  std::uint64_t lost_ = 0;
};

}  // namespace stallscope::sources
