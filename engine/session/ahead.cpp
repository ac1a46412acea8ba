// SPDX-License-Identifier: Apache-2.0
#include "session/ahead.h"

#include <algorithm>
#include <memory>

#include "base/flat_map.h"
#include "session/ahead_caches.h"
#include "stallscope_records.h"
#include "stream/reader.h"

namespace stallscope::session {
namespace {

enum Role : std::uint8_t { kNothing = 0, kPrefetched = 1, kFeeding = 2, kCounted = 4 };
constexpr std::uint64_t kMostEntries = 200'000'000;

// One access that a slice makes, in the program's order.
struct Entry {
  std::uint64_t address;
  std::uint32_t visit;
  std::uint8_t role;
  std::uint8_t which;   // number among the instructions with a role
  std::uint32_t times;  // the distance, when it is told inline
};

// A slice's view of the stream: which instructions are its own, and what they will access.
struct Plan {
  explicit Plan(const AheadSlice& what) : slice(what) {
    for (const std::uint64_t at : what.steps) on_trace.try_emplace(at);
    add(what.loads, kPrefetched);
    add(what.feeding, kFeeding);
    add({what.load}, kCounted);
    for (std::size_t i = 0; i < what.loads.size(); ++i) {
      const std::uint32_t times = i < what.times.size() ? what.times[i] : 1;
      roles.find(what.loads[i])->times = times;
      if (std::find(stages.begin(), stages.end(), times) == stages.end()) stages.push_back(times);
    }
  }
  void add(const std::vector<std::uint64_t>& which, std::uint8_t role) {
    for (const std::uint64_t at : which) {
      const auto [known, fresh] = roles.try_emplace(at);
      if (fresh) known->which = static_cast<std::uint8_t>(std::min<std::size_t>(roles.size(), 63));
      known->role |= role;
    }
  }
  bool covers(const stream::CodeTable& code, std::uint32_t block) {
    if (block >= known.size()) known.resize(block + 1, 0);
    if (known[block]) return known[block] == 1;
    const stream::Block& info = code.blocks[block];
    known[block] = 2;
    for (std::uint32_t i = 0; i < info.instructions; ++i)
      if (on_trace.contains(code.instructions[info.first_instruction + i].address))
        known[block] = 1;
    return known[block] == 1;
  }

  const AheadSlice& slice;
  FlatMap<bool> on_trace;
  struct Part {
    std::uint8_t role = kNothing, which = 0;
    std::uint32_t times = 1;
  };
  FlatMap<Part> roles;
  std::vector<std::uint32_t> stages;  // the times that there are
  std::vector<std::uint8_t> known;    // of a block: 1 on the trace, 2 not
  std::vector<Entry> entries;         // filled by the first pass
  std::vector<std::size_t> runs;      // entries that begin a run
  std::uint32_t visit = 0;
  bool inside = false;
};

std::uint64_t instruction_at(const stream::CodeTable& code, std::uint32_t block,
                             const stream::Operation& operation) {
  return code.instructions[code.blocks[block].first_instruction + operation.instruction].address;
}

// First pass: the addresses of each slice.
class Collector {
 public:
  Collector(std::vector<std::unique_ptr<Plan>>& plans, const stream::CodeTable& code)
      : plans_(plans), code_(code) {}

  void on_block(std::uint32_t, const stream::Exit& info, const std::uint64_t* addresses) {
    for (auto& plan : plans_) {
      const bool on = plan->covers(code_, info.block);
      if (on && !plan->inside) ++plan->visit;
      plan->inside = on;
      if (!on) continue;
      for (std::uint32_t i = 0; i < info.operations; ++i) {
        const stream::Operation& operation = code_.operations[info.first_operation + i];
        const Plan::Part* part = plan->roles.find(instruction_at(code_, info.block, operation));
        if (part == nullptr || addresses[i] == SS_NO_ADDRESS) continue;
        if (operation.kind == SS_OP_KIND_STORE || operation.is_prefetch()) continue;
        if (part->role & kCounted) plan->runs.push_back(plan->entries.size());
        plan->entries.push_back({addresses[i], plan->visit, part->role, part->which, part->times});
        if (++total_ > kMostEntries) full_ = true;
      }
    }
  }
  Status on_record(unsigned, const std::uint64_t*, std::uint32_t) {
    if (full_)
      return Error{"the recording is too long", "its slices run too often", "a shorter run"};
    return Done{};
  }

 private:
  std::vector<std::unique_ptr<Plan>>& plans_;
  const stream::CodeTable& code_;
  std::uint64_t total_ = 0;
  bool full_ = false;
};

// The assist thread of one slice.
struct Assist {
  double clock = 0;
  std::size_t next = 0;  // entry
  std::uint64_t runs = 0;
  bool active = false, waiting = false;
};

// Second pass: both threads through the caches.
class Runner {
 public:
  Runner(std::vector<std::unique_ptr<Plan>>& plans, const stream::CodeTable& code,
         const machine::MachineConfig& config, const AheadOptions& options)
      : plans_(plans),
        code_(code),
        options_(options),
        caches_(config, options.shared_core, options.hardware),
        assists_(plans.size()),
        main_(plans.size()) {
    for (auto& plan : plans_) {
      plan->inside = false;
      plan->visit = 0;
    }
  }

  void on_block(std::uint32_t, const stream::Exit& info, const std::uint64_t* addresses) {
    now_ += static_cast<double>(info.instructions) * options_.cycles;
    for (std::size_t s = 0; s < plans_.size(); ++s) enter(s, info.block);
    for (std::uint32_t i = 0; i < info.operations; ++i) {
      if (addresses[i] == SS_NO_ADDRESS) continue;
      const stream::Operation& operation = code_.operations[info.first_operation + i];
      if (operation.is_prefetch()) {
        bring(addresses[i], static_cast<std::uint64_t>(now_), false);
        continue;
      }
      const std::uint64_t at = instruction_at(code_, info.block, operation);
      for (std::size_t s = 0; s < plans_.size(); ++s) before(s, at, operation.kind);
      demand(addresses[i], operation.kind == SS_OP_KIND_STORE);
    }
  }
  Status on_record(unsigned, const std::uint64_t*, std::uint32_t) { return Done{}; }

  AheadCounts finish() {
    counts_.cycles = static_cast<std::uint64_t>(now_);
    return counts_;
  }

 private:
  struct Main {
    std::size_t next = 0;  // entry that comes
    std::uint64_t runs = 0;
  };

  void enter(std::size_t s, std::uint32_t block) {
    Plan& plan = *plans_[s];
    const bool on = plan.covers(code_, block);
    if (on && !plan.inside) {
      ++plan.visit;
      ++counts_.visits;
      if (!plan.slice.distance) restart(s);
    }
    if (!on) assists_[s].active = false;
    plan.inside = on;
  }

  void restart(std::size_t s) {
    assists_[s] = {now_ + options_.start, main_[s].next, main_[s].runs, true, false};
  }

  // An access of the main thread by instruction `at` is about to happen.
  void before(std::size_t s, std::uint64_t at, std::uint8_t kind) {
    Plan& plan = *plans_[s];
    if (!plan.inside) return;
    if (!plan.slice.distance) follow(s);
    const Plan::Part* part = plan.roles.find(at);
    if (part == nullptr || kind == SS_OP_KIND_STORE) return;
    if (part->role & kCounted) {
      ++counts_.runs;
      if (plan.slice.distance) deliver(s);
      ++main_[s].runs;
    }
    ++main_[s].next;
  }

  // Inline: the addresses of runs further on, where they follow from this one's.
  void deliver(std::size_t s) {
    const Plan& plan = *plans_[s];
    now_ += plan.slice.cost * options_.cycles;
    if (!options_.prefetch) return;
    for (const std::uint32_t times : plan.stages) deliver(plan, main_[s].runs, times);
  }

  void deliver(const Plan& plan, std::size_t run, std::uint32_t times) {
    const std::size_t away = std::size_t{times} * plan.slice.distance, other = run + away;
    if (other >= plan.runs.size()) return;
    const std::size_t here = plan.runs[run], there = plan.runs[other];
    const std::uint64_t grown = plan.entries[there].address - plan.entries[here].address;
    const auto told = static_cast<std::uint64_t>(plan.slice.step) * away;
    const bool same_visit = plan.entries[there].visit == plan.entries[here].visit;
    if (plan.slice.step ? grown != told : !same_visit) return;
    const std::size_t end =
        other + 1 < plan.runs.size() ? plan.runs[other + 1] : plan.entries.size();
    std::uint64_t seen = 0;  // of each load the first address of the run
    for (std::size_t at = there; at < end; ++at) {
      const Entry& entry = plan.entries[at];
      if (!(entry.role & kPrefetched) || entry.times != times) continue;
      if (seen >> entry.which & 1) continue;
      seen |= 1ULL << entry.which;
      bring(entry.address, static_cast<std::uint64_t>(now_), false);
    }
  }

  // Lets the assist thread run until the main thread's now.
  void follow(std::size_t s) {
    Assist& assist = assists_[s];
    Plan& plan = *plans_[s];
    while (assist.active && assist.clock <= now_) {
      if (assist.waiting && assist.runs + options_.chunk < main_[s].runs) {
        ++counts_.restarts;  // too far behind to catch up: it goes on from where the program is
        restart(s);
        continue;
      }
      if (assist.waiting && assist.runs > main_[s].runs + options_.slack) {
        assist.clock += options_.pause;
        ++counts_.pauses;
        continue;
      }
      assist.waiting = false;
      if (assist.next >= plan.entries.size() || plan.entries[assist.next].visit != plan.visit) {
        assist.active = false;  // off the trace
        return;
      }
      step(assist, plan);
    }
  }

  void step(Assist& assist, const Plan& plan) {
    const Entry& entry = plan.entries[assist.next++];
    const auto when = static_cast<std::uint64_t>(assist.clock);
    // The control reads nothing: it waits as long as it would.
    const std::uint64_t latency = options_.prefetch ? bring(entry.address, when, true)
                                                    : caches_.latency_of(entry.address, when, true);
    if (entry.role & kFeeding) assist.clock += beyond_first(latency);
    if (!(entry.role & kCounted)) return;
    assist.clock += plan.slice.cost * options_.cycles;
    if (++assist.runs % options_.chunk == 0) assist.waiting = true;
  }

  std::uint64_t bring(std::uint64_t address, std::uint64_t when, bool assist) {
    const TimedAccess access = caches_.access(address, when, assist, true);
    counts_.prefetches += access.served == Served::memory;
    return access.latency;
  }

  // A hit in the first cache is part of what an instruction takes.
  double beyond_first(std::uint64_t latency) const {
    return static_cast<double>(latency - std::min(latency, caches_.first_latency()));
  }

  void demand(std::uint64_t address, bool store) {
    const auto now = static_cast<std::uint64_t>(now_);
    const TimedAccess access = caches_.access(address, now, false, false);
    ++counts_.accesses;
    counts_.misses += access.served == Served::memory;
    counts_.in_flight += access.served == Served::in_flight && access.brought;
    counts_.used += access.brought;
    if (!store) now_ += beyond_first(access.latency);
  }

  std::vector<std::unique_ptr<Plan>>& plans_;
  const stream::CodeTable& code_;
  const AheadOptions& options_;
  TimedCaches caches_;
  std::vector<Assist> assists_;
  std::vector<Main> main_;
  AheadCounts counts_;
  double now_ = 0;
};

// Follows each written place to the loads that read it before the trace is left.
class Flowing {
 public:
  Flowing(const std::vector<std::uint64_t>& steps, const stream::CodeTable& code) : code_(code) {
    slice_.steps = steps;
    plan_ = std::make_unique<Plan>(slice_);
  }

  void on_block(std::uint32_t, const stream::Exit& info, const std::uint64_t* addresses) {
    if (!plan_->covers(code_, info.block)) {
      ++epoch_;
      return;
    }
    for (std::uint32_t i = 0; i < info.operations; ++i) {
      const stream::Operation& operation = code_.operations[info.first_operation + i];
      if (addresses[i] == SS_NO_ADDRESS || operation.is_prefetch()) continue;
      const std::uint64_t at = instruction_at(code_, info.block, operation);
      if (operation.kind != SS_OP_KIND_STORE) read(addresses[i], at);
      if (operation.kind != SS_OP_KIND_LOAD) *last_.try_emplace(addresses[i]).first = {at, epoch_};
    }
  }
  Status on_record(unsigned, const std::uint64_t*, std::uint32_t) { return Done{}; }

  std::vector<Flow> found;

 private:
  struct Stored {
    std::uint64_t at = 0, epoch = 0;
  };

  void read(std::uint64_t address, std::uint64_t at) {
    const Stored* stored = last_.find(address);
    if (stored == nullptr || stored->epoch != epoch_) return;
    for (Flow& flow : found)
      if (flow.store == stored->at && flow.load == at) {
        ++flow.count;
        return;
      }
    found.push_back({stored->at, at, 1});
  }

  AheadSlice slice_;
  std::unique_ptr<Plan> plan_;
  const stream::CodeTable& code_;
  FlatMap<Stored> last_;
  std::uint64_t epoch_ = 1;
};

}  // namespace

Result<AheadCounts> run_ahead(const std::string& trace, const machine::MachineConfig& config,
                              const AheadOptions& options) {
  if (Status fine = machine::check(config); !fine) return fine.error();
  if (options.chunk == 0 || options.pause == 0)
    return Error{"chunk and pause must be at least 1", "", ""};
  const bool data = std::any_of(config.caches.begin(), config.caches.end(),
                                [](const auto& cache) { return on_data_path(cache.holds); });
  if (!data) return Error{"the machine has no data cache", "", "choose another one"};
  std::vector<std::unique_ptr<Plan>> plans;
  for (const AheadSlice& slice : options.slices) plans.push_back(std::make_unique<Plan>(slice));
  auto reader = stream::TraceReader::open(trace);
  if (!reader) return reader.error();
  Collector collector(plans, reader->code());
  if (Status read = reader->for_each(collector); !read) return read.error();
  Runner runner(plans, reader->code(), config, options);
  if (Status read = reader->for_each(runner); !read) return read.error();
  return runner.finish();
}

Result<std::vector<Flow>> flows_of(const std::string& trace,
                                   const std::vector<std::uint64_t>& steps) {
  auto reader = stream::TraceReader::open(trace);
  if (!reader) return reader.error();
  Flowing flowing(steps, reader->code());
  if (Status read = reader->for_each(flowing); !read) return read.error();
  return std::move(flowing.found);
}

}  // namespace stallscope::session
