// SPDX-License-Identifier: Apache-2.0
// A kept trace on a machine of several cores: where each thread's data came from, and which lines
// went from cache to cache.
//
// Threads take turns as they did when they were recorded, or alternate faster where that changes
// nothing that they read (interleaver.h). Loads, and what reads and writes at once,
// wait for their data; stores wait in a store buffer and cost nothing. Every other instruction is
// taken to last one cycle.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "machine/coherence.h"
#include "session/replay.h"
#include "stallscope_tables.h"

namespace stallscope::session {

// 64 bytes of memory of which some 8-byte words lie elsewhere: where, or 0.
struct MovedWords {
  std::uint64_t chunk;  // address >> 6
  std::array<std::uint64_t, 8> to;
};

// Misses that certain sources served, one in `period`.
struct SourceSampling {
  bool on = false;
  // The address register changes with wanted misses only. Otherwise, as processors have it, it
  // holds the last miss of any kind when the counter's overflow is noticed, `skid` instructions
  // after it.
  bool exact = true;
  std::uint32_t skid = 10;
  std::uint64_t period = 10;              // on average; 0: adapts to `interval`
  std::uint64_t interval = 1000;          // instructions between samples that are aimed at
  std::vector<std::uint32_t> criteria{};  // bits of wanted sources; several take turns
  std::uint64_t slice = 100'000;          // instructions of such a turn
  std::uint32_t cost = 0;                 // cycles of taking a sample
};

struct SharingOptions {
  machine::ChipsConfig chips;
  std::vector<std::pair<std::uint32_t, std::uint32_t>> placement;  // thread, hardware thread
  std::uint64_t rotate = 0;  // instructions after which threads change places; 0: they stay
  std::uint64_t seed = 1;
  std::uint64_t grain = 0;  // blocks after which threads that may run together alternate; 0: turns
  std::uint64_t shift = 0;  // bytes that all data lies further on
  std::uint32_t first = 0;  // place of the first thread, in the order in which they are filled
  SourceSampling sampling;
  std::vector<std::uint64_t> followed;                           // lines, by their first byte
  std::vector<MovedWords> moved;                                 // the layout of data is changed
  std::vector<std::pair<std::uint64_t, std::uint32_t>> pages{};  // address, chip
};

struct SharingTables {
  FillTable fill;
  SharedLineTable shared_line;
  SharedSampleTable shared_sample;
  SharedAccessTable shared_access;
  SharedPageTable shared_page;
  BucketTable bucket;
  std::uint64_t instructions = 0, accesses = 0;
  std::uint64_t samples = 0;
  std::uint64_t handler_cycles = 0;
  std::vector<std::uint64_t> context_cycles;  // by hardware thread, without the handler's
  std::vector<std::pair<std::uint32_t, std::uint32_t>> placement;  // as it was in the end
  machine::BusEvents events;
  bool truncated = false;
};

// `placed` as for replay().
Result<SharingTables> share(const std::string& path, const machine::MachineConfig& config,
                            const SharingOptions& options, const std::vector<Placed>& placed);

// Two programs on one machine, which take turns of `slice` instructions each as long as both run.
// What happens to one is told as if it were alone; the machine's events are those of both.
Result<std::pair<SharingTables, SharingTables>> share_together(
    const std::array<std::string, 2>& paths, const machine::MachineConfig& config,
    const SharingOptions& options, std::uint64_t slice,
    const std::array<std::vector<Placed>, 2>& placed);

}  // namespace stallscope::session
