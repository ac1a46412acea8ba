// SPDX-License-Identifier: Apache-2.0
// The kernel as a source of samples. Its timer: threads of a process and of its children are
// stopped for a moment some hundred times a second of processor time, and their registers are
// noted. Or the processor's own sampling of loads, where the machine shows it.
#pragma once

#include <cstdint>
#include <deque>
#include <set>
#include <string>
#include <vector>

#include "base/result.h"
#include "sources/aux_area.h"
#include "sources/perf_events.h"
#include "sources/perf_ring.h"
#include "sources/precise.h"

namespace stallscope::sources {

struct ClockOptions {
  unsigned rate = 0;              // samples a second of each thread's processor time
  bool children = true;           // processes that it starts
  bool kernel = true;             // samples in the kernel too, where that is allowed
  bool loads = false;             // by the processor's sampling of loads instead of the timer
  std::uint64_t min_latency = 0;  // of such loads, in cycles; 0: as the kernel suggests
  std::string heap_logs;          // folder of allocation logs; empty: there are none
};

class Clock {
 public:
  // A process that waits before its exec: sampling begins with that.
  static Result<Clock> on_exec(pid_t process, const ClockOptions& options);
  // A running process, with all of its threads. Sampling begins at once.
  static Result<Clock> attach(pid_t process, const ClockOptions& options);

  // Every record that has come, in the order of each processor. Where the processor writes packets,
  // they come as samples.
  template <typename Visit>
  void drain(Visit&& visit) {
    for (std::size_t i = 0; i < rings_.size(); ++i)
      rings_[i].drain([&](std::span<const std::byte> record) {
        if (loads_.packets) take_packets(i, record, visit);
        visit(record);
      });
  }
  void stop();

  const Layout& layout() const { return layout_; }
  bool sees_kernel() const { return attributes_.exclude_kernel == 0; }
  // How often a processor found no room for its packets, and records that were left out.
  std::uint64_t truncated() const;
  std::uint64_t damaged() const;

 private:
  Clock() = default;
  static Result<Clock> described(const ClockOptions& options);
  Status open_thread(pid_t thread);
  int open_on(pid_t thread, int cpu);
  int open_group(pid_t thread, int cpu);
  Status map_ring(int event, int cpu);
  void take_packets(std::size_t ring, std::span<const std::byte> record,
                    const std::function<void(std::span<const std::byte>)>& visit);
  Status attach_threads(pid_t process);

  perf_event_attr attributes_{};
  PreciseLoads loads_;  // where they are sampled
  Layout layout_{};
  std::vector<int> cpus_;
  std::vector<Descriptor> events_;
  std::vector<int> ring_event_;  // by processor: the event whose ring all events there use
  std::vector<Ring> rings_;
  std::deque<SpeTaker> takers_;  // of each ring, where the processor writes packets
  std::set<pid_t> threads_;
};

// What this kernel's answer means, to a person. `setting` is its file of perf_event_paranoid.
Error explain(int error, pid_t process,
              const std::string& setting = "/proc/sys/kernel/perf_event_paranoid");

}  // namespace stallscope::sources
