// SPDX-License-Identifier: Apache-2.0
#include "session/replay.h"

#include "session/relocation.h"
#include "stream/reader.h"

namespace stallscope::session {
namespace {

Replayed result_of(Simulation& simulation, const stream::TraceReader& reader) {
  return {simulation.tables(), simulation.instructions(), simulation.accesses(), reader.truncated(),
          0};
}

constexpr std::size_t kRowsAPiece = 1'000'000;

struct Tracking {
  PageTracker& tracker;
  const std::function<void(PageLogTable)>& on_log;

  void on_block(std::uint32_t exit, const stream::Exit& info, const std::uint64_t* addresses) {
    tracker.on_block(exit, info, addresses);
    if (tracker.log_rows() >= kRowsAPiece) take();
  }
  Status on_record(unsigned tag, const std::uint64_t* words, std::uint32_t count) {
    return tracker.on_record(tag, words, count);
  }
  void take() { on_log(tracker.take_log()); }
};

}  // namespace

void place_all(const std::vector<Placed>& placed, probes::Buckets& buckets) {
  for (const Placed& one : placed)
    if (one.kind == "global")
      buckets.name(one.kind, one.name, one.type, one.address, one.size);
    else
      buckets.map(one.kind, one.name, one.address, one.size);
}

Result<PageTables> track_pages(const std::string& path, const PageOptions& options,
                               const std::vector<Placed>& placed,
                               const std::function<void(PageLogTable)>& on_log) {
  auto reader = stream::TraceReader::open(path);
  if (!reader) return reader.error();
  auto tracker = PageTracker::make(options, reader->code());
  if (!tracker) return tracker.error();
  place_all(placed, (*tracker)->buckets());
  Tracking tracking{**tracker, on_log};
  if (Status read = reader->for_each(tracking); !read) return read.error();
  tracking.take();
  return (*tracker)->tables();
}

Result<Replayed> replay(const std::string& path, const machine::MachineConfig& config,
                        const SimulationOptions& options, const std::vector<Placed>& placed,
                        const std::vector<types::Module>& modules) {
  auto reader = stream::TraceReader::open(path);
  if (!reader) return reader.error();
  auto simulation = Simulation::make(config, reader->code(), options);
  if (!simulation) return simulation.error();
  place_all(placed, (*simulation)->buckets());
  symbols::SymbolCache symbols;
  if (options.offsets)
    (*simulation)
        ->attach_elements(std::make_unique<Elements>(reader->code(), (*simulation)->buckets(),
                                                     symbols, [&] { return modules; }));
  if (Status read = reader->for_each(**simulation); !read) return read.error();
  return result_of(**simulation, *reader);
}

Result<Replayed> replay_moved(const std::string& path, const machine::MachineConfig& config,
                              const SimulationOptions& options, const std::vector<Placed>& placed,
                              const Policy& policy) {
  auto reader = stream::TraceReader::open(path);
  if (!reader) return reader.error();
  auto relocation = Relocation::make(policy);
  if (!relocation) return relocation.error();
  Foresight foresight{**relocation};
  if (Status read = reader->for_each(foresight); !read) return read.error();
  (*relocation)->ready();
  auto simulation = Simulation::make(config, reader->code(), options);
  if (!simulation) return simulation.error();
  place_all(placed, (*simulation)->buckets());
  (*simulation)->buckets().map("mapping", "near allocator", kKnowledge, kKnowledgeBytes);
  Relocated<Simulation> moved{**relocation, **simulation, {}};
  if (Status read = reader->for_each(moved); !read) return read.error();
  Replayed result = result_of(**simulation, *reader);
  result.moved_blocks = (*relocation)->blocks();
  return result;
}

}  // namespace stallscope::session
