// SPDX-License-Identifier: Apache-2.0
// What a core does between a branch that it mispredicts and the cycle in which it finds out: it
// goes on the wrong way, and behind the place where both ways meet it executes what the program
// will execute next. Loads there whose addresses depend on neither way bring their lines early.
//
// The program's own instructions are all that is known, so the wrong way is taken to be as long as
// the right one, to change every register that either way can change, and to reach the meeting.
// Several mispredicted branches may be unresolved at once: each starts a run of its own, and those
// before it go on behind its meeting too.
//
// Not modelled: what the wrong way itself loads, its effects on predictors and fetched code, and
// units that it keeps busy.
#pragma once

#include <cstdint>

#include "pipeline/core.h"
#include "pipeline/lowering.h"
#include "pipeline/meetings.h"

namespace stallscope::pipeline {

class WrongPaths {
 public:
  static constexpr std::uint64_t kNever = ~0ULL;
  using Members = std::uint8_t;  // a bit for each run

  explicit WrongPaths(const CoreConfig& config)
      : front_end_(config.front_end),
        bundle_(config.bundle),
        most_(config.rob * config.bundle - config.bundle) {}

  // A branch was mispredicted that is resolved in cycle `until`; the core goes on fetching in
  // `fetched`. `ready` says when each register is.
  void begin(const Meeting& meeting, std::uint64_t fetched, std::uint64_t until,
             const std::uint64_t* ready);
  // Nothing of what comes next is executed before its time.
  void end() { live_ = 0; }
  bool any() const { return live_ != 0; }
  // The next instruction in program order: which runs have reached it and execute it.
  Members pass(const CoreInstruction& instruction);

  // When the operation is executed first, by one of the runs; kNever for none.
  std::uint64_t first_issue(Members members, const MicroOp& op) const;
  // Its results: it takes `latency` cycles in a run, and is there at `finish` for all others.
  void executed(Members members, const MicroOp& op, std::uint64_t latency, std::uint64_t arrival,
                std::uint64_t finish);

 private:
  static constexpr unsigned kRuns = 4;
  static constexpr unsigned kFarthest = 64;  // instructions up to a meeting
  struct Run {
    std::uint64_t fetched, until;
    std::uint64_t meeting, changed;
    std::uint32_t passed;   // micro-operations
    std::uint32_t strayed;  // instructions since the ways parted
    bool met;
    std::uint64_t ready[kRegisters];
  };

  std::uint64_t dispatched(const Run& run) const {
    return run.fetched + front_end_ + run.passed / bundle_;
  }
  std::uint64_t issue(const Run& run, const MicroOp& op) const;
  void meet(Run& run);

  std::uint32_t front_end_, bundle_, most_;
  Run runs_[kRuns];
  Members live_ = 0;
  unsigned next_ = 0;  // run that begins next
};

}  // namespace stallscope::pipeline
