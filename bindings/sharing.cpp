// SPDX-License-Identifier: Apache-2.0
#include "session/sharing.h"

#include <nanobind/stl/array.h>
#include <nanobind/stl/pair.h>
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
using MovedRow = std::pair<std::uint64_t, std::array<std::uint64_t, 8>>;

template <typename T>
T value(const nb::dict& from, const char* key) {
  return nb::cast<T>(from[key]);
}

machine::ChipsConfig chips_of(const nb::dict& from) {
  const auto number = [&](const char* key) { return value<std::uint32_t>(from, key); };
  const auto name = value<std::string>(from, "protocol");
  const auto protocol = machine::protocol_of(name);
  if (!protocol) raise({"there is no protocol " + name, "", ""});
  machine::ChipsConfig chips;
  chips.chips = number("chips");
  chips.cores = number("cores");
  chips.threads = number("threads");
  chips.protocol = *protocol;
  chips.coherent = value<std::string>(from, "coherent");
  chips.shared = value<std::string>(from, "shared");
  chips.peer_latency = number("peer_latency");
  chips.remote_latency = number("remote_latency");
  chips.remote_outer_latency = number("remote_outer_latency");
  chips.remote_memory_latency = number("remote_memory_latency");
  chips.page = value<std::uint64_t>(from, "page");
  return chips;
}

session::SourceSampling sampling_of(const nb::dict& from) {
  session::SourceSampling sampling;
  sampling.on = value<bool>(from, "sample");
  sampling.exact = value<bool>(from, "exact");
  sampling.skid = value<std::uint32_t>(from, "skid");
  sampling.period = value<std::uint64_t>(from, "period");
  sampling.interval = value<std::uint64_t>(from, "interval");
  sampling.criteria = value<std::vector<std::uint32_t>>(from, "criteria");
  sampling.slice = value<std::uint64_t>(from, "slice");
  sampling.cost = value<std::uint32_t>(from, "cost");
  return sampling;
}

session::SharingOptions options_of(const nb::dict& chips, const nb::dict& from) {
  using Pairs = std::vector<std::pair<std::uint32_t, std::uint32_t>>;
  session::SharingOptions options;
  options.chips = chips_of(chips);
  options.placement = value<Pairs>(from, "placement");
  options.rotate = value<std::uint64_t>(from, "rotate");
  options.seed = value<std::uint64_t>(from, "seed");
  options.grain = value<std::uint64_t>(from, "grain");
  options.shift = value<std::uint64_t>(from, "shift");
  options.sampling = sampling_of(from);
  options.followed = value<std::vector<std::uint64_t>>(from, "followed");
  for (const auto& [chunk, to] : value<std::vector<MovedRow>>(from, "moved"))
    options.moved.push_back({chunk, to});
  options.pages = value<std::vector<std::pair<std::uint64_t, std::uint32_t>>>(from, "pages");
  return options;
}

nb::dict events_of(const machine::BusEvents& events) {
  nb::dict out;
  out["reads"] = events.reads;
  out["read_exclusives"] = events.read_exclusives;
  out["write_invalidates"] = events.write_invalidates;
  out["updates"] = events.updates;
  out["upgrades"] = events.upgrades;
  out["write_backs"] = events.write_backs;
  out["shared_accesses"] = events.accesses[static_cast<unsigned>(machine::State::shared)];
  out["owned_accesses"] = events.accesses[static_cast<unsigned>(machine::State::owned)];
  return out;
}

nb::dict result_of(session::SharingTables made) {
  nb::dict tables, result;
  add_table(tables, std::move(made.fill));
  add_table(tables, std::move(made.shared_line));
  add_table(tables, std::move(made.shared_sample));
  add_table(tables, std::move(made.shared_access));
  add_table(tables, std::move(made.shared_page));
  add_table(tables, std::move(made.bucket));
  result["tables"] = tables;
  result["instructions"] = made.instructions;
  result["accesses"] = made.accesses;
  result["samples"] = made.samples;
  result["handler_cycles"] = made.handler_cycles;
  result["context_cycles"] = nb::cast(made.context_cycles);
  result["placement"] = nb::cast(made.placement);
  result["events"] = events_of(made.events);
  result["truncated"] = made.truncated;
  return result;
}

std::vector<session::Placed> placed_of(const std::vector<PlacedRow>& rows) {
  std::vector<session::Placed> placed;
  for (const auto& [kind, name, type, address, size] : rows)
    placed.push_back({kind, name, type, address, size});
  return placed;
}

nb::dict run(const std::string& path, const nb::dict& machine, const nb::dict& chips,
             const nb::dict& options, const std::vector<PlacedRow>& rows) {
  const machine::MachineConfig config = machine_config_of(machine);
  const session::SharingOptions wanted = options_of(chips, options);
  const std::vector<session::Placed> placed = placed_of(rows);
  auto made = [&] {
    nb::gil_scoped_release release;
    return session::share(path, config, wanted, placed);
  }();
  if (!made) raise(made.error());
  return result_of(std::move(*made));
}

nb::tuple run_together(const std::string& path, const std::string& other, const nb::dict& machine,
                       const nb::dict& chips, const nb::dict& options, std::uint64_t slice,
                       const std::vector<PlacedRow>& rows, const std::vector<PlacedRow>& others) {
  const machine::MachineConfig config = machine_config_of(machine);
  const session::SharingOptions wanted = options_of(chips, options);
  auto made = [&] {
    nb::gil_scoped_release release;
    return session::share_together({path, other}, config, wanted, slice,
                                   {placed_of(rows), placed_of(others)});
  }();
  if (!made) raise(made.error());
  return nb::make_tuple(result_of(std::move(made->first)), result_of(std::move(made->second)));
}

nb::list sources() {
  nb::list names;
  for (unsigned i = 0; i < machine::kSources; ++i)
    names.append(nb::str(machine::name_of(static_cast<machine::Source>(i)).data()));
  return names;
}

}  // namespace

void bind_sharing(nb::module_& m) {
  m.def("share", &run, nb::arg("path"), nb::arg("machine"), nb::arg("chips"), nb::arg("options"),
        nb::arg("placed"), "A kept trace on a machine of several cores.");
  m.def("share_together", &run_together, nb::arg("path"), nb::arg("other"), nb::arg("machine"),
        nb::arg("chips"), nb::arg("options"), nb::arg("slice"), nb::arg("placed"),
        nb::arg("others"), "Two kept traces on one machine.");
  m.def("fill_sources", &sources, "Who may give a line, as table `fill` numbers them.");
}

}  // namespace stallscope
