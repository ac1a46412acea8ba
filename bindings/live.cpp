// SPDX-License-Identifier: Apache-2.0
// Recordings at native speed. The kernel fills its buffers by itself; Python calls poll() now and
// then.
#include "sources/live.h"

#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>

#include "bindings.h"
#include "columns.h"
#include "sampled.h"
#include "sources/skid.h"

namespace nb = nanobind;

namespace stallscope {
namespace {

using sources::Live;

sources::ClockOptions options_of(const nb::dict& words) {
  sources::ClockOptions options;
  options.rate = nb::cast<unsigned>(words["rate"]);
  options.children = nb::cast<bool>(words["children"]);
  options.loads = nb::cast<bool>(words["loads"]);
  options.min_latency = nb::cast<std::uint64_t>(words["min_latency"]);
  options.heap_logs = nb::cast<std::string>(words["heap_logs"]);
  return options;
}

sources::WatchOptions watch_of(const nb::dict& words) {
  return {nb::cast<std::uint32_t>(words["watch"]), nb::cast<std::uint64_t>(words["seed"])};
}

nb::list images_of(Live& live) {
  nb::list list;
  for (const auto& image : live.tree().images())
    list.append(sampled_image(*image, live.started(), live.touch_cost() > 0));
  return list;
}

nb::list known_images(const Live& live) {
  nb::list list;
  for (const auto& image : live.tree().images())
    list.append(nb::make_tuple(image->name(), image->pid()));
  return list;
}

nb::object counted_skid() {
  const auto counted = sources::count_skid();
  if (!counted) return nb::none();
  nb::list at;
  for (std::uint64_t count : counted->at) at.append(count);
  return nb::make_tuple(at, counted->elsewhere);
}

}  // namespace

nb::dict sampled_image(sources::SampledImage& image, std::uint64_t started, bool watched) {
  sources::SampledTables made;
  {
    nb::gil_scoped_release release;
    made = image.tables();
  }
  nb::dict tables;
  add_table(tables, std::move(made.thread));
  add_table(tables, std::move(made.module));
  add_table(tables, std::move(made.block));
  add_table(tables, std::move(made.operation));
  add_table(tables, std::move(made.site));
  add_table(tables, std::move(made.object));
  add_table(tables, std::move(made.event));
  add_table(tables, std::move(made.quality));
  add_table(tables, std::move(made.bucket));
  add_table(tables, std::move(made.live_sample));
  if (watched) {
    add_table(tables, std::move(made.watch));
    add_table(tables, std::move(made.reuse));
  }
  nb::dict facts;
  facts["name"] = image.name();
  facts["pid"] = image.pid();
  facts["parent"] = image.parent;
  facts["forked"] = image.forked;
  facts["ended"] = image.ended;
  facts["started_ns"] = image.first ? image.first : started;
  facts["ended_ns"] = image.last;
  facts["samples"] = image.samples();
  facts["allocations"] = made.allocations;
  facts["tables"] = tables;
  return facts;
}

void bind_live(nb::module_& m) {
  nb::class_<Live>(m, "Live", "Samples of a process and its children by the kernel's clock.")
      .def_static(
          "on_exec",
          [](int pid, const nb::dict& options, symbols::SymbolCache& symbols) {
            return unwrap(Live::on_exec(pid, options_of(options), watch_of(options), symbols));
          },
          nb::arg("pid"), nb::arg("options"), nb::arg("symbols"), nb::keep_alive<0, 3>(),
          "of a process that waits before its exec")
      .def_static(
          "attach",
          [](int pid, const nb::dict& options, symbols::SymbolCache& symbols) {
            return unwrap(Live::attach(pid, options_of(options), watch_of(options), symbols));
          },
          nb::arg("pid"), nb::arg("options"), nb::arg("symbols"), nb::keep_alive<0, 3>(),
          "of a running process")
      .def("poll", &Live::poll, nb::call_guard<nb::gil_scoped_release>())
      .def("stop", &Live::stop, nb::call_guard<nb::gil_scoped_release>())
      .def_prop_ro("known", &known_images, "(name, pid) of every process image so far")
      .def_prop_ro("samples", [](const Live& l) { return l.tree().samples(); })
      .def_prop_ro("lost", &Live::lost)
      .def_prop_ro("damaged", &Live::damaged)
      .def_prop_ro("skid", &Live::skid)
      .def_prop_ro("touch_cost", &Live::touch_cost, "nanoseconds; 0 when nothing is watched")
      .def_prop_ro("refused", &Live::refused, "breakpoints that somebody else has")
      .def_prop_ro("sees_kernel", &Live::sees_kernel)
      .def("images", &images_of, "facts and tables of every process image so far");
  m.def("count_skid", counted_skid,
        "(samples on a slow instruction and 1, 2, 3 behind it, elsewhere), or None");
}

}  // namespace stallscope
