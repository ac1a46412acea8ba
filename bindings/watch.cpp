// SPDX-License-Identifier: Apache-2.0
#include "session/watch.h"

#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include "bindings.h"
#include "columns.h"
#include "sources/breakpoints.h"

namespace nb = nanobind;

namespace stallscope {
namespace {

using RangeRow = std::tuple<std::uint64_t, std::uint64_t, std::uint32_t>;
using HeapRow = std::tuple<std::vector<std::uint32_t>, bool, std::uint64_t, std::uint64_t,
                           std::uint64_t, std::uint32_t>;

// As it is written between `value` and a number; empty: none.
session::WatchCondition::Is condition_of(const std::string& text) {
  using Is = session::WatchCondition::Is;
  return text == "="   ? Is::equal
         : text == "!" ? Is::unequal
         : text == "<" ? Is::below
         : text == ">" ? Is::above
                       : Is::anything;
}

nb::dict run(const std::string& path, const std::vector<RangeRow>& ranges,
             const std::vector<HeapRow>& heap, const std::vector<std::uint8_t>& kinds,
             const std::vector<std::pair<std::uint64_t, std::uint64_t>>& quiet,
             std::uint64_t stop_after, std::uint64_t log, bool paths, const std::string& values,
             const std::string& condition, std::uint64_t limit, bool snapshots) {
  session::WatchOptions options;
  for (const auto& [start, end, watch] : ranges) options.ranges.push_back({start, end, watch});
  for (const auto& [sites, past, from, to, stride, watch] : heap) {
    const auto of = sites.empty() ? std::nullopt : std::optional(sites);
    options.heap.push_back({of, past, from, to, stride, watch});
  }
  options.kinds = kinds;
  options.quiet = quiet;
  options.stop_after = stop_after;
  options.log = log;
  options.paths = paths;
  options.values = values;
  options.condition = {condition_of(condition), limit};
  options.snapshots = snapshots;
  auto found = [&] {
    nb::gil_scoped_release release;
    return session::watch(path, options);
  }();
  if (!found) raise(found.error());
  nb::dict tables;
  add_table(tables, std::move(found->hit));
  add_table(tables, std::move(found->count));
  add_table(tables, std::move(found->path));
  add_table(tables, std::move(found->value));
  nb::dict out;
  out["tables"] = tables;
  out["accesses"] = found->accesses;
  out["hits"] = found->hits;
  out["unknown"] = found->unknown;
  out["false_hits"] = found->false_hits;
  out["most_ranges"] = found->most_ranges;
  out["stopped"] = found->stopped;
  out["truncated"] = found->truncated;
  return out;
}

using sources::Breakpoints;

// (time, ip, word, tid, registers) of each.
nb::list poll(Breakpoints& breakpoints) {
  nb::list hits;
  for (const sources::WordHit& hit : breakpoints.poll()) {
    nb::list registers;
    for (const std::uint64_t value : hit.registers) registers.append(value);
    hits.append(nb::make_tuple(hit.time, hit.ip, hit.word, hit.tid, registers));
  }
  return hits;
}

void set(Breakpoints* self, int process,
         const std::vector<std::tuple<std::uint64_t, std::uint32_t, bool>>& words) {
  std::vector<sources::WatchedWord> wanted;
  for (const auto& [start, bytes, reads] : words) wanted.push_back({start, bytes, reads});
  new (self) Breakpoints(unwrap(Breakpoints::set(process, std::move(wanted))));
}

}  // namespace

void bind_watch(nb::module_& m) {
  nb::class_<Breakpoints>(m, "Breakpoints", "Words of a process that runs, watched.")
      .def("__init__", &set, nb::arg("process"), nb::arg("words"))
      .def("poll", &poll)
      .def_prop_ro("lost", &Breakpoints::lost);
  m.def("watch", run, nb::arg("path"), nb::arg("ranges"), nb::arg("heap"), nb::arg("kinds"),
        nb::arg("quiet"), nb::arg("stop_after"), nb::arg("log"), nb::arg("paths"),
        nb::arg("values") = "", nb::arg("condition") = "", nb::arg("limit") = 0,
        nb::arg("snapshots") = false, "Every access of a kept trace to watched memory.");
}

}  // namespace stallscope
