// SPDX-License-Identifier: Apache-2.0
#include "session/watch.h"

#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include "bindings.h"
#include "columns.h"

namespace nb = nanobind;

namespace stallscope {
namespace {

using RangeRow = std::tuple<std::uint64_t, std::uint64_t, std::uint32_t>;
using HeapRow = std::tuple<std::vector<std::uint32_t>, bool, std::uint64_t, std::uint64_t,
                           std::uint64_t, std::uint32_t>;

nb::dict run(const std::string& path, const std::vector<RangeRow>& ranges,
             const std::vector<HeapRow>& heap, const std::vector<std::uint8_t>& kinds,
             const std::vector<std::pair<std::uint64_t, std::uint64_t>>& quiet,
             std::uint64_t stop_after, std::uint64_t log, bool paths) {
  session::WatchOptions options;
  for (const auto& [start, end, watch] : ranges) options.ranges.push_back({start, end, watch});
  for (const auto& [sites, past, from, to, stride, watch] : heap)
    options.heap.push_back({sites, past, from, to, stride, watch});
  options.kinds = kinds;
  options.quiet = quiet;
  options.stop_after = stop_after;
  options.log = log;
  options.paths = paths;
  auto found = [&] {
    nb::gil_scoped_release release;
    return session::watch(path, options);
  }();
  if (!found) raise(found.error());
  nb::dict tables;
  add_table(tables, std::move(found->hit));
  add_table(tables, std::move(found->count));
  add_table(tables, std::move(found->path));
  nb::dict out;
  out["tables"] = tables;
  out["accesses"] = found->accesses;
  out["hits"] = found->hits;
  out["false_hits"] = found->false_hits;
  out["most_ranges"] = found->most_ranges;
  out["stopped"] = found->stopped;
  out["truncated"] = found->truncated;
  return out;
}

}  // namespace

void bind_watch(nb::module_& m) {
  m.def("watch", run, nb::arg("path"), nb::arg("ranges"), nb::arg("heap"), nb::arg("kinds"),
        nb::arg("quiet"), nb::arg("stop_after"), nb::arg("log"), nb::arg("paths"),
        "Every access of a kept trace to watched memory.");
}

}  // namespace stallscope
