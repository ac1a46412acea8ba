// SPDX-License-Identifier: Apache-2.0
// Programs of several threads on a simulated system: cores with coherent caches on one bus, memory
// behind a channel of limited width, a scheduler, and monitors that watch and act.
//
// Time: an instruction takes one cycle. Loads and what reads and writes at once wait for their
// line; stores wait in a buffer, in order, and hold the core up only when it is full. Everything
// that leaves a first cache takes the bus: a line, an update of one word, or an address alone, each
// for its own number of cycles, one after the other. A line from or to memory also takes the
// memory's channel. Threads wait for each other as thread_streams.h says.
// Not modelled: the instruction cache, out-of-order execution, DRAM pages, the kernel.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "machine/coherence.h"
#include "monitor/group.h"
#include "session/thread_streams.h"

namespace stallscope::session {

struct SystemOptions {
  // Cycles on the bus: 8 bytes in four cycles, two of these for arbitration, address and snoop,
  // held until a transaction is over.
  std::uint32_t bus_line = 40, bus_word = 12, bus_address = 8;
  std::uint32_t memory_line = 128;  // cycles of the memory's channel: half a byte a cycle
  std::uint32_t store_buffer = 8;
  bool sequential = false;        // a program begins when the one before it has ended
  std::uint64_t slice = 0;        // cycles after which another thread gets the core; 0: never
  std::uint32_t context = 500;    // cycles of changing the thread
  bool memory_bound = false;      // one memory-bound thread at a time, where others can run
  bool shuffled = false;          // every second core has the programs' threads in the other order
  std::uint32_t load_up = 2;      // slices of a thread before its verdict counts
  std::uint32_t interrupt = 500;  // cycles of one that a monitor sends
  bool prefetch = false;  // the next line behind a load that missed; a monitor may switch it
  bool bimodal = false;   // insertion into the shared cache at the end; a monitor may switch it
  bool check = false;     // all states after every change of the protocol
  std::vector<std::uint32_t> protocols;  // what to begin each sequential program with: an oracle
};

struct SystemRun {
  std::uint64_t cycles = 0;          // until the last thread ended
  std::vector<std::uint64_t> ended;  // by program
  std::vector<std::uint64_t> idle;   // cycles, by core
  std::uint64_t instructions = 0, accesses = 0;
  std::uint64_t bus_busy = 0, memory_busy = 0;    // cycles
  std::uint64_t bus_waits = 0, memory_waits = 0;  // cycles that cores and buffers waited for them
  std::uint64_t misses = 0, upgrades = 0, updates = 0, write_invalidates = 0, write_backs = 0;
  std::uint64_t switches = 0;       // of the protocol
  std::uint64_t illegal = 0;        // states after one, when checked
  std::uint64_t update_cycles = 0;  // under a protocol that updates
  std::uint64_t contexts = 0;       // changes of threads
  std::uint64_t interrupts = 0;
  std::uint64_t together = 0;  // cycles that two or more memory-bound threads ran
};

// `threads` outlives the call. `monitors` may be empty; they are driven up to the end.
Result<SystemRun> run_system(const ThreadStreams& threads, const machine::MachineConfig& machine,
                             const machine::ChipsConfig& chips, const SystemOptions& options,
                             monitor::Group& monitors);

}  // namespace stallscope::session
