// SPDX-License-Identifier: Apache-2.0
#include "session/replay.h"

#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include "bindings.h"
#include "machine_config.h"
#include "simulation.h"

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
  const session::SimulationOptions wanted = simulation_options_of(options);
  const std::vector<session::Placed> placed = placed_of(rows);
  auto replayed = [&] {
    nb::gil_scoped_release release;
    return session::replay(path, config, wanted, placed);
  }();
  if (!replayed) raise(replayed.error());
  return simulation_of(std::move(replayed->tables), replayed->instructions, replayed->accesses);
}

}  // namespace

void bind_replay(nb::module_& m) {
  m.def("replay", &run, nb::arg("path"), nb::arg("machine"), nb::arg("options"), nb::arg("placed"),
        "A kept trace through a machine.");
}

}  // namespace stallscope
