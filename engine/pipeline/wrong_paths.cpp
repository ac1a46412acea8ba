// SPDX-License-Identifier: Apache-2.0
#include "pipeline/wrong_paths.h"

#include <algorithm>

namespace stallscope::pipeline {

void WrongPaths::begin(const Meeting& meeting, std::uint64_t fetched, std::uint64_t until,
                       const std::uint64_t* ready) {
  if (meeting.address == 0) return end();
  Run& made = runs_[next_];
  live_ |= static_cast<Members>(1u << next_);
  next_ = (next_ + 1) % kRuns;
  made.fetched = fetched;
  made.until = until;
  made.passed = 0;
  std::copy_n(ready, kRegisters, made.ready);
  for (Run& run : runs_) {  // those that are not alive do not mind
    run.meeting = meeting.address;
    run.changed = meeting.changed;
    run.strayed = 0;
    run.met = false;
  }
}

void WrongPaths::meet(Run& run) {
  run.met = true;
  for (unsigned r = 1; r < kRegisters; ++r)
    if (run.changed >> r & 1) run.ready[r] = kNever;
}

WrongPaths::Members WrongPaths::pass(const CoreInstruction& instruction) {
  Members members = 0;
  for (unsigned i = 0; i < kRuns; ++i) {
    if (!(live_ >> i & 1)) continue;
    Run& run = runs_[i];
    if (!run.met && instruction.address == run.meeting) meet(run);
    run.passed += instruction.count;
    const bool lost = !run.met && ++run.strayed > kFarthest;
    if (lost || run.passed > most_ || dispatched(run) >= run.until)
      live_ &= static_cast<Members>(~(1u << i));
    else if (run.met)
      members |= static_cast<Members>(1u << i);
  }
  return members;
}

std::uint64_t WrongPaths::issue(const Run& run, const MicroOp& op) const {
  std::uint64_t cycle = dispatched(run);
  for (const std::uint8_t source : op.sources) cycle = std::max(cycle, run.ready[source]);
  return cycle < run.until ? cycle : kNever;
}

std::uint64_t WrongPaths::first_issue(Members members, const MicroOp& op) const {
  std::uint64_t first = kNever;
  for (unsigned i = 0; i < kRuns; ++i)
    if (members >> i & 1) first = std::min(first, issue(runs_[i], op));
  return first;
}

void WrongPaths::executed(Members members, const MicroOp& op, std::uint64_t latency,
                          std::uint64_t arrival, std::uint64_t finish) {
  for (unsigned i = 0; i < kRuns; ++i) {
    if (!(members >> i & 1)) continue;
    const std::uint64_t issued = issue(runs_[i], op);
    const bool runs = issued != kNever;
    const std::uint64_t done = runs ? std::max(issued + latency, arrival) : finish;
    for (const std::uint8_t result : op.results) runs_[i].ready[result] = done;
    runs_[i].ready[op.stepped] = runs ? issued + 1 : finish;
  }
}

}  // namespace stallscope::pipeline
