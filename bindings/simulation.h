// SPDX-License-Identifier: Apache-2.0
// What a simulation gives, and what it is told, between Python and the engine.
#pragma once

#include <nanobind/nanobind.h>

#include "columns.h"
#include "session/simulation.h"

namespace stallscope {

inline session::SimulationOptions simulation_options_of(const nanobind::dict& from) {
  namespace nb = nanobind;
  session::SimulationOptions options;
  options.evictions = nb::cast<bool>(from["evictions"]);
  options.offsets = nb::cast<bool>(from["offsets"]);
  options.classify = nb::cast<bool>(from["classify"]);
  options.frames = nb::cast<bool>(from["frames"]);
  options.event = nb::cast<std::int32_t>(from["event"]);
  options.period = nb::cast<std::uint64_t>(from["period"]);
  options.seed = nb::cast<std::uint64_t>(from["seed"]);
  options.event_code = nb::cast<bool>(from["event_code"]);
  options.min_latency = nb::cast<std::uint32_t>(from["min_latency"]);
  options.tagged = nb::cast<bool>(from["tagged"]);
  options.handler_cost = nb::cast<std::uint64_t>(from["handler_cost"]);
  options.perturb = nb::cast<bool>(from["perturb"]);
  options.budget = nb::cast<double>(from["budget"]);
  options.alone = from.contains("alone") && nb::cast<bool>(from["alone"]);
  return options;
}

// {"tables": {name: columns}, "instructions": …, "accesses": …, "sample_period": …, …}
inline nanobind::dict simulation_of(session::SimulationTables made, std::uint64_t instructions,
                                    std::uint64_t accesses) {
  nanobind::dict tables;
  add_table(tables, std::move(made.level));
  add_table(tables, std::move(made.bucket));
  add_table(tables, std::move(made.miss));
  add_table(tables, std::move(made.eviction));
  add_table(tables, std::move(made.code_miss));
  add_table(tables, std::move(made.sample));
  add_table(tables, std::move(made.region));
  add_table(tables, std::move(made.region_level));
  add_table(tables, std::move(made.miss_class));
  add_table(tables, std::move(made.resident));
  if (made.has_offsets) {
    add_table(tables, std::move(made.offset));
    add_table(tables, std::move(made.fold));
  }
  nanobind::dict result;
  result["tables"] = tables;
  result["instructions"] = instructions;
  result["accesses"] = accesses;
  result["sample_period"] = made.sample_period;
  result["sample_events"] = made.sample_events;
  result["sample_level"] = made.sample_level;
  result["sample_code"] = made.sample_code;
  result["interrupts"] = made.interrupts;
  result["program_cycles"] = made.program_cycles;
  result["handler_cycles"] = made.handler_cycles;
  result["loads"] = made.loads;
  result["tags"] = made.tags;
  return result;
}

}  // namespace stallscope
