// SPDX-License-Identifier: Apache-2.0
#include "session/loops.h"

#include <nanobind/stl/string.h>

#include "bindings.h"
#include "columns.h"

namespace nb = nanobind;

namespace stallscope {
namespace {

nb::dict run(const std::string& path) {
  auto found = [&] {
    nb::gil_scoped_release release;
    return session::loops(path);
  }();
  if (!found) raise(found.error());
  nb::dict tables;
  add_table(tables, std::move(found->loop));
  add_table(tables, std::move(found->branch));
  add_table(tables, std::move(found->access));
  nb::dict out;
  out["tables"] = tables;
  out["instructions"] = found->instructions;
  out["truncated"] = found->truncated;
  return out;
}

}  // namespace

void bind_loops(nb::module_& m) {
  m.def("loops", run, nb::arg("path"), "The loops of a kept trace.");
}

}  // namespace stallscope
