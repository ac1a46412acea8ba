// SPDX-License-Identifier: Apache-2.0
#include "session/replay.h"

#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include "bindings.h"
#include "columns.h"
#include "machine_config.h"

namespace nb = nanobind;

namespace stallscope {
namespace {

using PlacedRow = std::tuple<std::string, std::string, std::string, std::uint64_t, std::uint64_t>;

std::vector<session::Placed> placed_of(const std::vector<PlacedRow>& rows) {
  std::vector<session::Placed> placed;
  for (const auto& [kind, name, type, address, size] : rows)
    placed.push_back({kind, name, type, address, size});
  return placed;
}

nb::dict run(const std::string& path, const nb::dict& machine, const nb::dict& options,
             const std::vector<PlacedRow>& rows) {
  const machine::MachineConfig config = machine_config_of(machine);
  session::SimulationOptions wanted;
  wanted.evictions = nb::cast<bool>(options["evictions"]);
  wanted.event = nb::cast<std::int32_t>(options["event"]);
  wanted.period = nb::cast<std::uint64_t>(options["period"]);
  wanted.seed = nb::cast<std::uint64_t>(options["seed"]);
  const std::vector<session::Placed> placed = placed_of(rows);
  auto replayed = [&] {
    nb::gil_scoped_release release;
    return session::replay(path, config, wanted, placed);
  }();
  if (!replayed) raise(replayed.error());
  session::SimulationTables& made = replayed->tables;
  nb::dict tables;
  add_table(tables, std::move(made.level));
  add_table(tables, std::move(made.bucket));
  add_table(tables, std::move(made.miss));
  add_table(tables, std::move(made.eviction));
  add_table(tables, std::move(made.sample));
  nb::dict result;
  result["tables"] = tables;
  result["instructions"] = replayed->instructions;
  result["accesses"] = replayed->accesses;
  result["truncated"] = replayed->truncated;
  result["sample_period"] = made.sample_period;
  result["sample_events"] = made.sample_events;
  result["sample_level"] = made.sample_level;
  return result;
}

}  // namespace

void bind_replay(nb::module_& m) {
  m.def("replay", &run, nb::arg("path"), nb::arg("machine"), nb::arg("options"), nb::arg("placed"),
        "A kept trace through a machine.");
}

}  // namespace stallscope
