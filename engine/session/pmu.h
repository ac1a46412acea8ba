// SPDX-License-Identifier: Apache-2.0
// What a simulation needs besides when it has to know more than which accesses missed: the PMU's
// unit that follows one load at a time, misses of instruction fetches, and a sampling handler that
// costs cycles and disturbs the caches.
//
// Time is instructions executed plus cycles waited for what the first levels did not have: nothing
// overlaps. A run that needs none of this pays nothing for it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include "machine/machine.h"
#include "probes/budget.h"
#include "probes/handler.h"
#include "probes/misses.h"
#include "probes/sampler.h"
#include "probes/tag_unit.h"
#include "stream/code_table.h"

namespace stallscope::session {

// Counts the misses of instruction fetches by the instruction whose line was missing, and samples
// them where they are the event.
struct CodeProbe {
  const stream::CodeTable& code;
  probes::Misses misses;                      // its buckets are blocks, its operations instructions
  probes::Misses& data;                       // knows what victims are
  probes::Sampler* sampler;                   // nullptr where the event is one of data
  std::uint32_t event_line;                   // bytes of a line of the event's cache
  unsigned event;                             // level
  unsigned caches;                            // TLBs are numbered behind them
  std::uint32_t min_latency;                  // cycles
  std::uint64_t code_line;                    // bytes of a line of code
  stream::Exit exit{};                        // whose code is being fetched
  std::uint32_t missed = 0;                   // levels, a bit each
  std::uint64_t victim = machine::kNoVictim;  // of the event's level
  bool interrupted = false;                   // a sample was taken
  std::uint64_t waited = 0;                   // cycles, so far

  void on_miss(const machine::Miss& miss);
  void on_translation_miss(const machine::TranslationMiss& miss);
  void on_access_done(const machine::Served& served);

 private:
  void count(const machine::Served& served);
};

// By what an instruction can be named: recordings name the first instruction of each block that ran
// and those that access memory.
struct CodePlace {
  std::uint32_t block;      // its own; where code of several functions is joined to one block, one
                            // that begins where its stretch of straight code does
  std::uint32_t operation;  // the nearest on that stretch; kNone32 when there is none
};

class CodePlaces {
 public:
  // Of the blocks so far; `code` outlives this.
  explicit CodePlaces(const stream::CodeTable& code);
  // `instruction`: an index into the code table's, of this block.
  CodePlace find(std::uint32_t block, std::uint32_t instruction) const;

 private:
  const stream::CodeTable& code_;
  std::unordered_map<std::uint64_t, std::uint32_t> by_address_;  // blocks
};

// Misses of a level by the sampling handler, and those that there would be without it.
struct Disturbance {
  std::uint64_t by_handler;
  std::uint64_t without;
};

struct Pmu {
  CodeProbe code;
  std::optional<probes::TagUnit> tags{};
  std::optional<probes::Budget> budget{};
  std::optional<probes::Handler> handler{};       // where it touches the caches
  std::unique_ptr<machine::Machine> untouched{};  // the same accesses without the handler's
  std::uint64_t handler_cost = 0;                 // cycles of an interrupt besides its accesses
  std::uint32_t hit_latency = 0;                  // of the first data cache
  std::uint64_t interrupts = 0;
  std::uint64_t handler_cycles = 0;
  std::vector<machine::Counters> by_handler{};  // by cache, then by TLB: to be taken off

  Disturbance disturbance(std::uint32_t level, std::uint64_t misses) const;
};

}  // namespace stallscope::session
