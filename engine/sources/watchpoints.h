// SPDX-License-Identifier: Apache-2.0
// Memory of a running process under hardware breakpoints, until it is touched again.
//
// A sample says that an address was accessed; by the time that we know, it may have been accessed
// often. So a watch waits for a first touch, and the time from there to the next is a reuse time,
// measured by the kernel. A third touch gives another, of the access that came second.
//
// How long a watch waits does not depend on what it watches: that keeps what is learned from those
// whose touch came in time unbiased (see docs/models/reuse.md).
//
// One thread at a time. Every thread of the process gets its own breakpoints, at most four.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <memory>
#include <random>
#include <vector>

#include "sources/perf_ring.h"

namespace stallscope::sources {

struct WatchOptions {
  std::uint32_t bytes = 0;  // of a granule: 8, 16 or 32; 0: nothing is watched
  std::uint64_t seed = 1;
};

// A sampled access that may be watched.
struct Accessed {
  std::uint64_t address, ip, time;
  std::uint32_t tid;
};

struct Touch {
  std::uint64_t time;
  std::uint64_t ran;  // processor time of the thread since the breakpoint was set
  std::uint64_t ip;   // behind the instruction
  std::uint32_t tid;
  std::uint32_t word;  // of the granule: each has a breakpoint, whose `ran` is its own
};

struct Watched {
  static constexpr std::size_t kTouches = 3;
  Accessed sampled;
  std::uint64_t granule;
  std::uint32_t bytes;
  std::uint64_t armed;
  std::uint64_t patience;      // for each touch
  std::vector<Touch> touches;  // in the order of time, at most kTouches
  std::uint64_t ended;         // when it was given up, or the last touch seen
};

class Watchpoints {
 public:
  static constexpr std::size_t kRegisters = 4;

  Watchpoints(pid_t process, const WatchOptions& options);

  // Of the accesses that came since the last poll, some are watched from the next on: those of
  // instructions that were watched least.
  void offer(const Accessed& accessed) { offered_.push_back(accessed); }
  // What is over by now, then new watches where there is room.
  void poll(std::uint64_t now, std::vector<Watched>& over);
  // All that is left.
  void stop(std::uint64_t now, std::vector<Watched>& over);

  std::uint64_t refused() const { return refused_; }  // breakpoints that somebody else has

 private:
  struct Armed {
    Watched watched;
    std::map<pid_t, std::vector<Descriptor>> events;
  };
  // Holds the ring that all breakpoints of a thread write to.
  struct Thread {
    Descriptor anchor;
    Ring ring;
  };
  void follow_threads();
  bool set(Armed& armed, pid_t thread);
  void take_touches();
  static bool is_over(const Watched& watched, std::uint64_t now);
  Accessed choose();
  void arm(const Accessed& accessed, std::uint64_t now);

  pid_t process_;
  std::uint32_t bytes_;
  std::mt19937_64 random_;
  std::map<pid_t, Thread> threads_;
  std::vector<Armed> armed_;
  std::vector<Accessed> offered_;
  std::map<std::uint64_t, std::uint64_t> watched_at_;  // watches, by where the sample stood
  std::uint64_t refused_ = 0;
};

// What a touch of a watched granule adds to the time until the next, in nanoseconds: measured here,
// on ourselves. 0 when this machine cannot watch.
std::uint64_t touch_cost();

}  // namespace stallscope::sources
