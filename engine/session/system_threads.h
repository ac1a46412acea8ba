// SPDX-License-Identifier: Apache-2.0
// Which thread runs on which core of a simulated system, and who waits for whom.
//
// Each core has a run queue of its own; threads stay where they are. The plain scheduler gives the
// core to the next thread in turn. The other one knows, from two slices on, which threads are
// memory-bound: while one of these runs on another core, it looks for one that is not, and takes a
// memory-bound one only when it finds none.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <vector>

#include "session/system.h"

namespace stallscope::session {

class SystemThreads {
 public:
  static constexpr std::uint32_t kNone = ~0u;

  struct Thread {
    const ThreadStream* stream;
    std::size_t next = 0;  // event
    std::uint64_t ready_at = 0;
    std::uint32_t core = 0;
    std::uint32_t slices = 0;
    std::size_t wake_at = ~std::size_t{0};  // event behind which somebody waits
    bool memory_bound = false;
    bool waiting = true, done = false;
  };
  struct Core {
    std::uint64_t clock = 0, idle = 0, slice_end = 0;
    std::uint32_t running = kNone;
    std::deque<std::uint32_t> queue;  // ready ones
  };

  SystemThreads(const ThreadStreams& streams, std::uint32_t cores, const SystemOptions& options);

  std::vector<Thread> threads;
  std::vector<Core> cores;
  std::vector<std::uint8_t> verdicts;  // by core: memory-bound
  std::uint64_t contexts = 0;
  std::vector<std::uint64_t> ended;  // by program

  // The core to go on with: of those that have something to run, the one that is behind most;
  // kNone when nobody can. `until`: the clock of the next one.
  std::uint32_t pick(std::uint64_t& until);
  // The slice of what runs there is over.
  void end_slice(std::uint32_t core);
  // What runs there waits at its barrier, or for an event of another thread; false: it need not.
  bool at_barrier(std::uint32_t core, std::uint64_t number);
  bool at_wait(std::uint32_t core, const ThreadStream::Wait& wait);
  void finish(std::uint32_t core);
  // It went past `wake_at`.
  void wake_those_behind(std::uint32_t thread, std::uint64_t now);
  // Who waits, and where: for an error.
  std::string described() const;
  bool all_done() const { return left_ == 0; }
  std::uint32_t memory_bound_running() const { return memory_bound_running_; }

 private:
  struct Barrier {
    std::uint32_t arrived = 0;
    std::vector<std::uint32_t> waiting;
  };
  struct Sleeper {
    std::uint32_t thread;
    std::size_t behind;
  };
  void start_program(std::uint32_t program, std::uint64_t now);
  void make_ready(std::uint32_t thread, std::uint64_t now);
  void run(std::uint32_t core, std::size_t place);
  void stop(std::uint32_t core);
  void choose(std::uint32_t core);
  std::size_t choice(const Core& core) const;

  const ThreadStreams& streams_;
  const SystemOptions& options_;
  std::map<std::pair<std::uint32_t, std::uint64_t>, Barrier> barriers_;
  std::vector<std::vector<Sleeper>> sleepers_;  // by the thread that they wait for
  std::vector<std::uint32_t> left_of_;          // threads, by program
  std::size_t left_ = 0;
  std::uint32_t memory_bound_running_ = 0;
};

}  // namespace stallscope::session
