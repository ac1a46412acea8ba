// SPDX-License-Identifier: Apache-2.0
// A kept trace through a machine.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
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
};

// `placed` in the order in which later ones hide earlier ones.
Result<Replayed> replay(const std::string& path, const machine::MachineConfig& config,
                        const SimulationOptions& options, const std::vector<Placed>& placed);

}  // namespace stallscope::session
