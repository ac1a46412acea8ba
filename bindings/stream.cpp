// SPDX-License-Identifier: Apache-2.0
#include <nanobind/stl/string.h>

#include "bindings.h"
#include "stream/check.h"
#include "stream/values.h"

namespace nb = nanobind;

namespace stallscope {
namespace {

nb::dict totals_of(const stream::Totals& totals) {
  nb::dict numbers;
  numbers["words"] = totals.words;
  numbers["executions"] = totals.executions;
  numbers["accesses"] = totals.accesses;
  numbers["instructions"] = totals.instructions;
  return numbers;
}

nb::dict check(const std::string& path, bool counted) {
  auto reader = stream::TraceReader::open(path);
  if (!reader) raise(reader.error());
  const auto checked = [&] {
    nb::gil_scoped_release release;
    return stream::check_trace(*reader, counted ? SS_MODE_COUNT : SS_MODE_STREAM);
  }();
  nb::list violations;
  for (const stream::Violation& v : checked.violations())
    violations.append(nb::make_tuple(v.severity == stream::Severity::error ? "error" : "note",
                                     v.rule, v.instructions, v.text));
  nb::dict result;
  result["errors"] = checked.errors();
  result["notes"] = checked.notes();
  result["truncated"] = reader->truncated();
  result["violations"] = violations;
  result["totals"] = totals_of(checked.seen());
  return result;
}

std::uint64_t check_values(const std::string& path, const std::string& values) {
  return unwrap([&] {
    nb::gil_scoped_release release;
    return stream::check_values(path, values);
  }());
}

}  // namespace

void bind_stream(nb::module_& m) {
  m.def("check_stream", &check, nb::arg("path"), nb::arg("counted"),
        "The invariant checker over a stream on disk.");
  m.def("check_values", &check_values, nb::arg("path"), nb::arg("values"),
        "How many values there are beside a trace, once all were read and fit it.");
}

}  // namespace stallscope
