// SPDX-License-Identifier: Apache-2.0
#include "session/stalls.h"

#include <map>

#include "probes/buckets.h"
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
  void fill(StallObjectTable& table) const {
    for (const auto& [key, cycles] : cycles_) table.append({key.first, key.second, cycles});
  }

  probes::Buckets buckets;

 private:
  std::map<std::pair<std::uint32_t, std::uint8_t>, std::uint64_t> cycles_;
};

struct Sink {
  pipeline::Pipeline& core;
  ByObject* objects;

  void on_block(std::uint32_t, const stream::Exit& info, const std::uint64_t* addresses) {
    core.on_block(info, addresses);
  }
  Status on_record(unsigned tag, const std::uint64_t* words, std::uint32_t count) {
    if (tag == SS_SIFTED)
      return Error{"the stream has sifted accesses where all are wanted", "", ""};
    if (tag == SS_THREAD_SWITCH || tag == SS_SIGNAL) core.interrupt(SS_HEAD_THREAD(words[0]));
    if (objects) tell_memory(objects->buckets, tag, words, count);
    return Done{};
  }
};

void fill_instructions(const pipeline::Pipeline& core, const stream::CodeTable& code,
                       StallTable& table) {
  for (std::uint32_t block = 0; block < code.blocks.size(); ++block) {
    const stream::Block& info = code.blocks[block];
    for (std::uint32_t i = 0; i < info.instructions; ++i) {
      const std::size_t index = info.first_instruction + i;
      if (index >= core.executed().size()) return;
      for (std::uint8_t cause = 0; cause < kCauses; ++cause)
        if (const std::uint64_t cycles = core.charged()[index * kCauses + cause]; cycles > 0)
          table.append(
              {block, code.instructions[index].address, cause, cycles, core.executed()[index]});
    }
  }
}

void fill_sources(const pipeline::Pipeline& core, const machine::MachineConfig& config,
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
                  i < memory ? config.caches[i].latency : config.memory_latency, core.served()[i],
                  core.source_cycles()[i]});
  }
}

void append(CoreCountTable& table, const char* series, std::uint32_t row, std::uint32_t thread,
            const pipeline::EventCounts& counts) {
  for (unsigned i = 0; i < pipeline::kEvents; ++i)
    table.append({series, row, thread, static_cast<std::uint8_t>(i), counts.values[i]});
}

void fill_counts(const pipeline::Pipeline& core, CoreCountTable& table) {
  append(table, "total", 0, 0, core.counts());
  std::uint32_t row = 0;
  for (const pipeline::Slice& one : core.timeline())
    append(table, "time", row++, one.thread, one.counts);
  for (const pipeline::Slice& one : core.threads())
    append(table, "thread", one.thread, one.thread, one.counts);
  row = 0;
  for (const pipeline::Slice& one : core.slices())
    append(table, "slice", row++, one.thread, one.counts);
}

// All of the stream, with data where the options want it.
Status read_all(stream::TraceReader& reader, const StallOptions& options, Sink& sink) {
  if (!options.policy.text.empty()) {
    auto relocation = Relocation::make(options.policy);
    if (!relocation) return relocation.error();
    Foresight foresight{**relocation};
    if (Status read = reader.for_each(foresight); !read) return read.error();
    (*relocation)->ready();
    Relocated<Sink> moved{**relocation, sink, {}};
    return reader.for_each(moved);
  }
  if (options.shapes.empty()) return reader.for_each(sink);
  auto reshape = Reshape::make(options.shapes);
  if (!reshape) return reshape.error();
  Reshaped<Sink> shaped{*reshape, sink, {}};
  return reader.for_each(shaped);
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
  Sink sink{**core, options.objects ? &objects : nullptr};
  if (Status read = read_all(*reader, options, sink); !read) return read.error();
  (*core)->finish();
  Stalls made;
  fill_instructions(**core, reader->code(), made.stall);
  fill_sources(**core, config, made.stall_source);
  fill_counts(**core, made.core_count);
  objects.fill(made.stall_object);
  objects.buckets.fill(made.bucket);
  made.switch_cycles = (*core)->switch_cycles();
  made.truncated = reader->truncated();
  return made;
}

}  // namespace stallscope::session
