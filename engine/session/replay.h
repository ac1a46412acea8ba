// SPDX-License-Identifier: Apache-2.0
// A kept trace through a machine.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/result.h"
#include "session/pages.h"
#include "session/placer.h"
#include "session/simulation.h"

namespace stallscope::session {

// Something with a name that lies still: a variable, a stack, a mapping.
struct Placed {
  std::string kind;
  std::string name;
  std::string type;
  std::uint64_t address;
  std::uint64_t size;
};

struct Replayed {
  SimulationTables tables;
  std::uint64_t instructions = 0;
  std::uint64_t accesses = 0;
  bool truncated = false;
  std::uint64_t moved_blocks = 0;
};

void place_all(const std::vector<Placed>& placed, probes::Buckets& buckets);

// `placed` in the order in which later ones hide earlier ones. `modules` are those whose files are
// still the same; they are looked at for offsets alone.
Result<Replayed> replay(const std::string& path, const machine::MachineConfig& config,
                        const SimulationOptions& options, const std::vector<Placed>& placed,
                        const std::vector<types::Module>& modules = {});

// The same with heap blocks where a policy of the near allocator puts them.
Result<Replayed> replay_moved(const std::string& path, const machine::MachineConfig& config,
                              const SimulationOptions& options, const std::vector<Placed>& placed,
                              const Policy& policy);

// The page references of a kept trace. `on_log` gets their log in pieces, one behind the other.
Result<PageTables> track_pages(const std::string& path, const PageOptions& options,
                               const std::vector<Placed>& placed,
                               const std::function<void(PageLogTable)>& on_log);

}  // namespace stallscope::session
