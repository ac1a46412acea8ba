// SPDX-License-Identifier: Apache-2.0
#include "session/reuse.h"

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "bindings.h"
#include "columns.h"

namespace nb = nanobind;

namespace stallscope {
namespace {

nb::dict reuse_of(const std::string& path, std::uint32_t granule, std::vector<std::uint64_t> wanted,
                  bool all) {
  auto found = [&] {
    nb::gil_scoped_release release;
    return session::reuse_of(path, {granule, std::move(wanted), all});
  }();
  if (!found) raise(found.error());
  std::vector<std::uint64_t> shortest(found->times.size());
  for (std::size_t i = 0; i < shortest.size(); ++i) shortest[i] = session::Reuse::shortest_at(i);
  nb::dict out;
  out["accesses"] = found->accesses;
  out["touches"] = found->touches;
  out["granules"] = found->granules;
  out["truncated"] = found->truncated;
  out["shortest"] = array_of(std::move(shortest));
  out["times"] = array_of(std::move(found->times));
  out["curve"] = array_of(std::move(found->curve));
  std::vector<std::uint64_t> followed;
  for (const auto& touch : found->followed)
    followed.insert(followed.end(), {touch.granule, touch.time, touch.instruction});
  out["followed"] = array_of(std::move(followed));
  return out;
}

}  // namespace

void bind_reuse(nb::module_& m) {
  m.def("reuse_of", reuse_of, nb::arg("path"), nb::arg("granule"),
        nb::arg("followed") = std::vector<std::uint64_t>(), nb::arg("all") = true,
        "reuse times of all granules that a trace touches, and their LRU curve; of the followed "
        "ones granule, time and instruction of every touch");
}

}  // namespace stallscope
