// SPDX-License-Identifier: Apache-2.0
#include "session/touched.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include "bindings.h"
#include "columns.h"
#include "layouts.h"

namespace nb = nanobind;

namespace stallscope {
namespace {

using FollowedRow = std::tuple<std::optional<std::uint32_t>, std::uint64_t, std::uint64_t>;

nb::dict touched(const std::string& path, const std::vector<PlacedRow>& rows,
                 const std::vector<FollowedRow>& words) {
  const std::vector<session::Placed> placed = placed_of(rows);
  std::vector<session::Followable> followed;
  for (const auto& [site, address, element] : words) followed.push_back({site, address, element});
  auto found = [&] {
    nb::gil_scoped_release release;
    return session::touched_by(path, placed, followed);
  }();
  if (!found) raise(found.error());
  nb::dict tables;
  add_table(tables, std::move(found->touch));
  add_table(tables, std::move(found->touch_offset));
  add_table(tables, std::move(found->bucket));
  nb::dict result;
  result["tables"] = tables;
  result["truncated"] = found->truncated;
  return result;
}

}  // namespace

void bind_touched(nb::module_& m) {
  m.def("touched", &touched, nb::arg("path"), nb::arg("placed"), nb::arg("followed"),
        "Lines and bytes that a kept trace touches, by stat bucket, and words of elements.");
}

}  // namespace stallscope
