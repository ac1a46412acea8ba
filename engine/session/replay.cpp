// SPDX-License-Identifier: Apache-2.0
#include "session/replay.h"

#include "stream/reader.h"

namespace stallscope::session {

Result<Replayed> replay(const std::string& path, const machine::MachineConfig& config,
                        const SimulationOptions& options, const std::vector<Placed>& placed) {
  auto reader = stream::TraceReader::open(path);
  if (!reader) return reader.error();
  auto simulation = Simulation::make(config, reader->code(), options);
  if (!simulation) return simulation.error();
  probes::Buckets& buckets = (*simulation)->buckets();
  for (const Placed& one : placed)
    if (one.kind == "global")
      buckets.name(one.kind, one.name, one.type, one.address, one.size);
    else
      buckets.map(one.kind, one.name, one.address, one.size);
  if (Status read = reader->for_each(**simulation); !read) return read.error();
  return Replayed{(*simulation)->tables(), (*simulation)->instructions(), (*simulation)->accesses(),
                  reader->truncated()};
}

}  // namespace stallscope::session
