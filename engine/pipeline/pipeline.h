// SPDX-License-Identifier: Apache-2.0
// A core that executes recorded instructions: fetch, dispatch in bundles, issue out of order,
// retirement in order, and why each cycle that retired nothing was lost.
//
// Every micro-operation is looked at once, in program order, and its cycles are computed from those
// of the operations in front of it; cycles in which nothing happens cost nothing. Older operations
// take units before younger ones. docs/models/pipeline.md says what is modelled and what is not.
//
// One thread drives it. Cycles = completion cycles + stall cycles + switch cycles, always.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "base/result.h"
#include "machine/machine.h"
#include "pipeline/calendar.h"
#include "pipeline/core.h"
#include "pipeline/events.h"
#include "pipeline/lowering.h"
#include "pipeline/meetings.h"
#include "pipeline/memory.h"
#include "pipeline/predictor.h"
#include "pipeline/wrong_paths.h"
#include "stream/code_table.h"

namespace stallscope::pipeline {

struct PipelineOptions {
  Mode mode = Mode::real;
  Ideal ideal = 0;
  std::uint32_t bus = 8;    // cycles that a line takes on the memory bus
  std::uint64_t slice = 0;  // after how many cycles or instructions a slice ends; 0: never
  bool slice_by_instructions = false;
  std::uint32_t switch_cycles = 0;  // that every end of a slice costs
  std::uint32_t switch_lines = 0;   // of the data cache that it touches
};

// A stretch of cycles that retired nothing, charged to one cause.
struct Stall {
  Cause cause;
  std::uint8_t source;        // level that served the miss; kNoSource
  std::uint32_t instruction;  // index into CodeTable::instructions
  std::uint64_t cycles;
  std::uint64_t address;  // of the data; machine::kNoAddress
};
// Who is told of every stall. Called in the order of retirement.
class StallWatcher {
 public:
  virtual ~StallWatcher() = default;
  virtual void on_stall(const Stall& stall) = 0;
};

// What happened between two points in time; ends where the first bundle retires behind `slice`.
struct Slice {
  std::uint32_t thread;
  EventCounts counts;
};

class Pipeline {
 public:
  // `machine` and `code` outlive it.
  static Result<std::unique_ptr<Pipeline>> make(machine::Machine& machine,
                                                const stream::CodeTable& code,
                                                const CoreConfig& config,
                                                const PipelineOptions& options);

  // One execution of a block. `addresses` as the stream has them.
  void on_block(const stream::Exit& exit, const std::uint64_t* addresses) {
    on_part(exit, addresses, 0, exit.instructions);
  }
  // Of an execution of a block, instructions `from` to before `to`; `addresses` of all of it.
  void on_part(const stream::Exit& exit, const std::uint64_t* addresses, std::uint32_t from,
               std::uint32_t to);
  // From here on another thread runs, or a signal's handler.
  void interrupt(std::uint32_t thread);
  // Everything retires. Nothing may come afterwards.
  void finish();
  // The bundle ends here, and the timeline and the threads count from here on.
  void restart_rows();
  // The bundle ends here, and the timeline and the threads have everything.
  void end_rows();
  void watch(StallWatcher* watcher) { watcher_ = watcher; }
  // Called with every slice when it ends.
  void tell_slices(std::function<void(const Slice&)> told) { told_ = std::move(told); }

  const EventCounts& counts() const { return events_; }
  std::uint64_t switch_cycles() const { return switch_cycles_; }
  // Of data-cache stalls, by the level that served the miss; the last is memory.
  const std::vector<std::uint64_t>& source_cycles() const { return source_cycles_; }
  // Misses of loads and stores, by the level that served them.
  const std::vector<std::uint64_t>& served() const { return memory_.served(); }
  // By index of the instruction times kCauses, plus the cause.
  const std::vector<std::uint64_t>& charged() const { return charged_; }
  const std::vector<std::uint64_t>& executed() const { return executed_; }  // by instruction
  // A row is merged with its neighbour when there are too many, so all are about as long.
  const std::vector<Slice>& timeline() const { return timeline_; }
  const std::vector<Slice>& slices() const { return slices_; }
  std::vector<Slice> threads() const;
  static EventCounts less(const EventCounts& now, const EventCounts& before);

 private:
  struct Slot {
    const MicroOp* op;
    std::uint32_t instruction;
    std::uint32_t size;
    std::uint64_t address;
    std::uint64_t issued;
    Finished done;
    int waited;                 // slot of the same bundle whose result came last, or -1
    WrongPaths::Members ahead;  // wrong paths that execute it before its time
  };
  struct Retired {
    std::uint64_t cycle;
    Needs needs;
    std::uint32_t operations;
  };
  static constexpr std::uint64_t kNever = ~0ULL;
  static constexpr std::size_t kTimeline = 512;  // rows, at most twice as many

  Pipeline(machine::Machine& machine, const stream::CodeTable& code, const CoreConfig& config,
           const PipelineOptions& options);

  void learn();
  void fetch_lines(const CoreInstruction& instruction, std::uint32_t index);
  void fetch_line(std::uint64_t line, std::uint32_t index);
  void add(const CoreInstruction& instruction, std::uint32_t index, const stream::Exit& exit,
           const std::uint64_t* addresses);
  void fill(Slot& slot, const MicroOp& op, std::uint32_t index, const stream::Exit& exit,
            const std::uint64_t* addresses);
  // The branch that was fetched last goes on here.
  void resolve(std::uint64_t next);
  bool predicted(const CoreInstruction& branch, bool taken, std::uint64_t next);
  void learn_target(const CoreInstruction& branch, std::uint64_t next);

  void close();
  std::uint64_t dispatch();
  std::uint64_t wait_for_entries(std::uint64_t cycle);
  std::uint64_t wait_for_queues(std::uint64_t cycle);
  void issue(unsigned index, std::uint64_t dispatched);
  void execute(Slot& slot);
  void execute_ahead(Slot& slot);
  void go_wrong(std::uint64_t resolved);
  void retire(std::uint64_t dispatched);
  void charge_stall(std::uint64_t from, std::uint64_t until, std::uint64_t dispatched);
  void charge_empty(std::uint64_t from, std::uint64_t until);
  void charge_waiting(std::uint64_t from, std::uint64_t until);
  unsigned last_finished() const;
  Cause cause_of(const Slot& slot) const;
  void charge(Cause cause, std::uint64_t cycles, std::uint32_t instruction,
              const Slot* slot = nullptr);
  void count_time();
  void end_thread();
  void end_slice();
  void keep_slice();

  const stream::CodeTable& code_;
  CoreConfig config_;
  PipelineOptions options_;
  EventCounts events_;
  Memory memory_;
  std::uint32_t line_bits_;
  Lowered lowered_;
  Predictor predictor_;
  Meetings meetings_;
  WrongPaths wrong_paths_;
  Calendar calendar_;
  StallWatcher* watcher_ = nullptr;
  std::function<void(const Slice&)> told_;

  // Fetch.
  std::uint64_t fetch_cycle_ = 1;
  std::uint32_t fetched_ = 0;  // instructions in that cycle
  std::uint64_t line_ = kNever;
  std::uint64_t missed_at_ = kNever;  // an instruction-cache miss that this bundle waited for
  std::uint32_t missed_by_ = 0;       // instruction
  std::uint64_t mispredicted_at_ = kNever;
  std::uint32_t mispredicted_by_ = 0;
  bool switched_ = false;                    // this bundle waits for a switch
  const CoreInstruction* branch_ = nullptr;  // fetched last, where it goes is not known yet
  std::uint32_t branch_index_ = 0;
  bool redirected_ = false;        // the branch at the end of this bundle was mispredicted
  std::vector<bool> went_;         // by instruction: where it branches to is known
  WrongPaths::Members ahead_ = 0;  // wrong paths that execute this instruction

  // The bundle that is being put together.
  Slot slots_[kMostBundle];
  unsigned size_ = 0;
  std::uint32_t instructions_ = 0;
  Needs needs_;

  // Behind it.
  std::uint64_t number_ = 0;  // of the bundle
  std::uint64_t dispatched_ = 0;
  std::uint64_t retired_ = 0;
  std::uint32_t in_front_;                      // bundles between fetch and dispatch, at most
  std::vector<std::uint64_t> dispatch_cycles_;  // ring, of those bundles
  std::vector<Retired> window_;                 // ring, of the reorder buffer
  std::uint64_t oldest_ = 0;                    // bundle that still holds its entries
  std::uint32_t held_[3]{};                     // rename, loads, stores
  std::uint32_t held_operations_ = 0;
  std::uint64_t ready_[kRegisters]{};
  std::uint64_t writer_[kRegisters]{};  // bundle and slot

  std::uint64_t switch_cycles_ = 0;
  std::vector<std::uint64_t> source_cycles_, charged_, executed_;
  std::vector<Slice> timeline_, slices_, threads_;
  EventCounts row_start_, slice_start_, thread_start_;
  std::uint64_t row_length_ = 1024, row_end_ = 1024, slice_end_;
  std::uint32_t thread_ = 1;
};

}  // namespace stallscope::pipeline
