// SPDX-License-Identifier: Apache-2.0
#include "session/ahead.h"

#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include "bindings.h"
#include "machine_config.h"
#include "target/patch.h"

namespace nb = nanobind;

namespace stallscope {
namespace {

session::AheadSlice slice_of(const nb::dict& words) {
  session::AheadSlice slice;
  slice.load = nb::cast<std::uint64_t>(words["load"]);
  slice.steps = nb::cast<std::vector<std::uint64_t>>(words["steps"]);
  slice.loads = nb::cast<std::vector<std::uint64_t>>(words["loads"]);
  slice.feeding = nb::cast<std::vector<std::uint64_t>>(words["feeding"]);
  slice.times = nb::cast<std::vector<std::uint32_t>>(words["times"]);
  slice.cost = nb::cast<double>(words["cost"]);
  slice.distance = nb::cast<std::uint32_t>(words["distance"]);
  slice.step = nb::cast<std::int64_t>(words["step"]);
  return slice;
}

nb::dict run(const std::string& path, const nb::dict& machine, const nb::list& slices,
             const nb::dict& words) {
  const machine::MachineConfig config = machine_config_of(machine);
  session::AheadOptions options;
  for (const auto slice : slices) options.slices.push_back(slice_of(nb::cast<nb::dict>(slice)));
  options.chunk = nb::cast<std::uint32_t>(words["chunk"]);
  options.slack = nb::cast<std::uint32_t>(words["slack"]);
  options.pause = nb::cast<std::uint32_t>(words["pause"]);
  options.shared_core = nb::cast<bool>(words["shared_core"]);
  options.hardware = nb::cast<bool>(words["hardware"]);
  options.prefetch = nb::cast<bool>(words["prefetch"]);
  const session::AheadCounts counts = unwrap([&] {
    nb::gil_scoped_release release;
    return session::run_ahead(path, config, options);
  }());
  nb::dict out;
  out["cycles"] = counts.cycles;
  out["accesses"] = counts.accesses;
  out["misses"] = counts.misses;
  out["in_flight"] = counts.in_flight;
  out["prefetches"] = counts.prefetches;
  out["used"] = counts.used;
  out["runs"] = counts.runs;
  out["visits"] = counts.visits;
  out["restarts"] = counts.restarts;
  out["pauses"] = counts.pauses;
  return out;
}

using FlowRow = std::tuple<std::uint64_t, std::uint64_t, std::uint64_t>;

std::vector<FlowRow> flows(const std::string& path, const std::vector<std::uint64_t>& steps) {
  const auto found = unwrap([&] {
    nb::gil_scoped_release release;
    return session::flows_of(path, steps);
  }());
  std::vector<FlowRow> rows;
  for (const session::Flow& flow : found) rows.emplace_back(flow.store, flow.load, flow.count);
  return rows;
}

using PatchRow = std::tuple<std::uint64_t, nb::bytes, nb::bytes>;

std::string raw(const nb::bytes& bytes) { return {bytes.c_str(), bytes.size()}; }

nb::tuple patch(int pid, const std::vector<PatchRow>& rows) {
  std::vector<target::Patch> patches;
  for (const auto& [address, expected, bytes] : rows)
    patches.push_back({address, raw(expected), raw(bytes)});
  const target::Patched patched = unwrap([&] {
    nb::gil_scoped_release release;
    return target::patch_process(pid, patches);
  }());
  nb::list done;
  for (const bool one : patched.done) done.append(one);
  nb::object ended = nb::none();
  if (patched.ended) ended = nb::int_(patched.status);
  return nb::make_tuple(done, ended);
}

}  // namespace

void bind_ahead(nb::module_& m) {
  m.def("run_ahead", &run, nb::arg("path"), nb::arg("machine"), nb::arg("slices"),
        nb::arg("options"), "A kept trace with prefetch slices beside it.");
  m.def("patch_process", &patch, nb::arg("pid"), nb::arg("patches"),
        "Changes code of a running process: (address, expected, bytes) each; whether each was, and "
        "the process's status if it ended meanwhile.");
  m.def("flows_of", &flows, nb::arg("path"), nb::arg("steps"),
        "Which stores of these instructions feed which of their loads, and how often.");
}

}  // namespace stallscope
