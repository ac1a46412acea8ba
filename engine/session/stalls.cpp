// SPDX-License-Identifier: Apache-2.0
#include "session/stalls.h"

#include <algorithm>
#include <map>

#include "probes/buckets.h"
#include "session/code_lines.h"
#include "session/memory_events.h"
#include "session/quick.h"
#include "session/relocation.h"
#include "stream/reader.h"
#include "stream/record.h"

namespace stallscope::session {
namespace {

using pipeline::Event;
using pipeline::kCauses;

// Stalls by the data whose access they were charged to.
class ByObject : public pipeline::StallWatcher {
 public:
  void on_stall(const pipeline::Stall& stall) override {
    if (stall.address == machine::kNoAddress) return;
    cycles_[{buckets.find(stall.address), static_cast<std::uint8_t>(stall.cause)}] += stall.cycles;
  }
  void restart() { cycles_.clear(); }
  void fill(StallObjectTable& table) const {
    for (const auto& [key, cycles] : cycles_) table.append({key.first, key.second, cycles});
  }

  probes::Buckets buckets;

 private:
  std::map<std::pair<std::uint32_t, std::uint8_t>, std::uint64_t> cycles_;
};

struct Sink {
  machine::Machine& machine;
  pipeline::Pipeline& core;
  ByObject* objects;

  void on_block(std::uint32_t, const stream::Exit& info, const std::uint64_t* addresses) {
    core.on_block(info, addresses);
  }
  void on_part(const stream::Exit& info, const std::uint64_t* addresses, std::uint32_t from,
               std::uint32_t to) {
    core.on_part(info, addresses, from, to);
  }
  Status on_record(unsigned tag, const std::uint64_t* words, std::uint32_t count) {
    if (tag == SS_SIFTED)
      return Error{"the stream has sifted accesses where all are wanted", "", ""};
    if (tag == SS_THREAD_SWITCH || tag == SS_SIGNAL) core.interrupt(SS_HEAD_THREAD(words[0]));
    tell_memory(machine, tag, words, count);
    if (objects) tell_memory(objects->buckets, tag, words, count);
    return Done{};
  }
};

// What a core has counted at one point.
struct Counted {
  pipeline::EventCounts events;
  std::uint64_t switch_cycles = 0;
  std::vector<std::uint64_t> source_cycles, served, charged, executed;

  static Counted of(const pipeline::Pipeline& core) {
    return {core.counts(), core.switch_cycles(), core.source_cycles(),
            core.served(), core.charged(),       core.executed()};
  }
  void subtract(const Counted& before) {
    events = pipeline::Pipeline::less(events, before.events);
    switch_cycles -= before.switch_cycles;
    subtract(source_cycles, before.source_cycles);
    subtract(served, before.served);
    subtract(charged, before.charged);
    subtract(executed, before.executed);
  }
  static void subtract(std::vector<std::uint64_t>& from, const std::vector<std::uint64_t>& what) {
    for (std::size_t i = 0; i < what.size(); ++i) from[i] -= what[i];  // it can only have grown
  }
};

// With `every` also instructions that never stall, in a row without cycles: so that executions of
// several parts can be added up.
void fill_instructions(const Counted& core, const stream::CodeTable& code, bool every,
                       StallTable& table) {
  for (std::uint32_t block = 0; block < code.blocks.size(); ++block) {
    const stream::Block& info = code.blocks[block];
    for (std::uint32_t i = 0; i < info.instructions; ++i) {
      const std::size_t index = info.first_instruction + i;
      if (index >= core.executed.size()) return;
      bool stalls = false;
      for (std::uint8_t cause = 0; cause < kCauses; ++cause) {
        const std::uint64_t cycles = core.charged[index * kCauses + cause];
        stalls |= cycles > 0;
        if (cycles > 0 || (every && !stalls && cause + 1 == kCauses && core.executed[index] > 0))
          table.append(
              {block, code.instructions[index].address, cause, cycles, core.executed[index]});
      }
    }
  }
}

void fill_sources(const Counted& core, const machine::MachineConfig& config,
                  StallSourceTable& table) {
  const std::size_t memory = config.caches.size();
  bool first = true;
  for (std::size_t i = 0; i <= memory; ++i) {
    if (i < memory && !machine::on_data_path(config.caches[i].holds)) continue;
    if (first) {  // what it serves is no miss
      first = false;
      continue;
    }
    table.append({i < memory ? config.caches[i].name : "memory",
                  i < memory ? config.caches[i].latency : config.memory_latency, core.served[i],
                  core.source_cycles[i]});
  }
}

void append(CoreCountTable& table, const char* series, std::uint32_t row, std::uint32_t thread,
            const pipeline::EventCounts& counts) {
  for (unsigned i = 0; i < pipeline::kEvents; ++i)
    table.append({series, row, thread, static_cast<std::uint8_t>(i), counts.values[i]});
}

void fill_counts(const pipeline::Pipeline& core, const Counted& counted, CoreCountTable& table) {
  append(table, "total", 0, 0, counted.events);
  std::uint32_t row = 0;
  for (const pipeline::Slice& one : core.timeline())
    append(table, "time", row++, one.thread, one.counts);
  for (const pipeline::Slice& one : core.threads())
    append(table, "thread", one.thread, one.thread, one.counts);
  row = 0;
  for (const pipeline::Slice& one : core.slices())
    append(table, "slice", row++, one.thread, one.counts);
}

// A core, what is known of its run, and what becomes of that.
struct Run {
  pipeline::Pipeline& core;
  ByObject& objects;
  const stream::CodeTable& code;
  const machine::MachineConfig& config;
  bool part;
  Stalls made = {};
  Counted before = {};

  std::uint64_t cycles() const { return core.counts()[Event::cycles]; }
  void begin() {
    core.restart_rows();
    before = Counted::of(core);
    objects.restart();
  }
  void end() {
    Counted counted = Counted::of(core);
    counted.subtract(before);
    fill_instructions(counted, code, part, made.stall);
    fill_sources(counted, config, made.stall_source);
    fill_counts(core, counted, made.core_count);
    objects.fill(made.stall_object);
    objects.buckets.fill(made.bucket);
    made.switch_cycles = counted.switch_cycles;
  }
};

// What a machine's caches and TLBs see of a trace, without a core.
class Warming {
 public:
  Warming(machine::Machine& machine, const stream::CodeTable& code)
      : machine_(machine), code_(code), lines_(code, code_line_of(machine.config())) {}

  void on_block(std::uint32_t exit, const stream::Exit& info, const std::uint64_t* addresses) {
    for (const std::uint64_t line : lines_.of(exit)) {
      if (line == last_line_) continue;
      last_line_ = line;
      machine_.fetch(line, 1, probe_);
    }
    constexpr machine::AccessKind kKinds[] = {
        machine::AccessKind::load, machine::AccessKind::store, machine::AccessKind::modify,
        machine::AccessKind::load /* none */, machine::AccessKind::prefetch};
    for (std::uint32_t i = 0; i < info.operations; ++i) {
      if (addresses[i] == machine::kNoAddress) continue;
      const stream::Operation& operation = code_.operations[info.first_operation + i];
      machine_.data(addresses[i], operation.size, kKinds[operation.kind], probe_);
    }
  }

 private:
  static std::uint64_t code_line_of(const machine::MachineConfig& config) {
    for (const machine::CacheConfig& cache : config.caches)
      if (machine::on_fetch_path(cache.holds)) return cache.line;
    return 0;
  }

  machine::Machine& machine_;
  const stream::CodeTable& code_;
  CodeLines lines_;
  machine::NullProbe probe_;
  std::uint64_t last_line_ = ~std::uint64_t{0};
};

// Runs a piece only.
struct Part {
  const Piece& piece;
  Sink& sink;
  Run& run;
  Warming warming;
  std::uint64_t position = 0, began = 0, ended = 0;
  bool begun = false, over = false;

  void on_block(std::uint32_t exit, const stream::Exit& info, const std::uint64_t* addresses) {
    const std::uint64_t at = position;
    position += info.instructions;
    if (at < piece.warm) return warming.on_block(exit, info, addresses);
    if (over && at - piece.last >= piece.behind) {
      if (!run.made.cycles_behind) run.made.cycles_behind = run.cycles() - ended;
      return;
    }
    if (!begun && at >= piece.first) begin();
    if (begun && !run.made.cycles_first && at - piece.first >= piece.after)
      run.made.cycles_first = run.cycles() - began;
    if (!over && at >= piece.last) end();
    sink.on_block(exit, info, addresses);
  }
  Status on_record(unsigned tag, const std::uint64_t* words, std::uint32_t count) {
    return sink.on_record(tag, words, count);
  }
  void begin() {
    begun = true;
    run.begin();
    began = run.cycles();
  }
  void end() {
    over = true;
    run.core.end_rows();
    ended = run.cycles();
    run.end();
  }
  void finish() {
    if (over) return;
    if (!begun) begin();
    run.core.finish();
    run.end();
  }
};

// All of the stream, in another order.
Status read_tiled(stream::TraceReader& reader, const Tiling& tiling, Sink& sink) {
  Tiles tiles(tiling, reader.code());
  Tiled<Sink> tiled{tiles, sink};
  if (Status read = reader.for_each(tiled); !read) return read.error();
  tiled.finish();
  if (!tiles.refused().empty()) return Error{"the loops cannot be tiled", tiles.refused(), ""};
  if (tiles.tiled() == 0) return Error{"the loops that are to be tiled never run", "", ""};
  return Done{};
}

// The same with data where the options want it.
template <typename To>
Status read_all(stream::TraceReader& reader, const StallOptions& options, To& sink) {
  if (!options.policy.text.empty()) {
    auto relocation = Relocation::make(options.policy);
    if (!relocation) return relocation.error();
    Foresight foresight{**relocation};
    if (Status read = reader.for_each(foresight); !read) return read.error();
    (*relocation)->ready();
    Relocated<To> moved{**relocation, sink, {}};
    return reader.for_each(moved);
  }
  if (options.shapes.empty()) return reader.for_each(sink);
  auto reshape = Reshape::make(options.shapes);
  if (!reshape) return reshape.error();
  Reshaped<To> shaped{*reshape, sink, {}};
  return reader.for_each(shaped);
}

Status run_all(stream::TraceReader& reader, machine::Machine& machine, const StallOptions& options,
               Sink& sink, Run& run) {
  if (options.piece) {
    Part part{*options.piece, sink, run, Warming(machine, reader.code())};
    if (Status read = read_all(reader, options, part); !read) return read.error();
    part.finish();
    return Done{};
  }
  Status read = options.tiling.loops.empty() ? read_all(reader, options, sink)
                                             : read_tiled(reader, options.tiling, sink);
  if (!read) return read.error();
  run.core.finish();
  run.end();
  return Done{};
}

}  // namespace

Result<Stalls> stalls(const std::string& path, const machine::MachineConfig& config,
                      const StallOptions& options, const std::vector<Placed>& placed) {
  auto reader = stream::TraceReader::open(path);
  if (!reader) return reader.error();
  auto machine = machine::make_machine(config);
  if (!machine) return machine.error();
  auto core = pipeline::Pipeline::make(**machine, reader->code(), options.core, options.pipeline);
  if (!core) return core.error();
  ByObject objects;
  if (options.objects) {
    place_all(placed, objects.buckets);
    (*core)->watch(&objects);
  }
  (*core)->tell_slices(options.on_slice);
  Sink sink{**machine, **core, options.objects ? &objects : nullptr};
  Run run{**core, objects, reader->code(), config, options.piece.has_value()};
  if (Status ran = run_all(*reader, **machine, options, sink, run); !ran) return ran.error();
  run.made.truncated = reader->truncated();
  return std::move(run.made);
}

}  // namespace stallscope::session
