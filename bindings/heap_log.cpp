// SPDX-License-Identifier: Apache-2.0
// The allocation log of a native run. Calls on one log come one at a time.
#include "sources/heap_log.h"

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "bindings.h"

namespace nb = nanobind;

namespace stallscope {
namespace {

using sources::HeapLog;

void make(HeapLog* self, const std::string& path) {
  new (self) HeapLog(unwrap(HeapLog::open(path)));
}

nb::object find(HeapLog& self, std::uint64_t address) {
  const auto block = self.find(Address{address});
  if (!block) return nb::none();
  return nb::make_tuple(block->site, block->is_large, block->start.value, block->size);
}

nb::object guess(HeapLog& self, std::uint64_t address) {
  const auto found = self.guess(Address{address});
  return found ? nb::object(nb::make_tuple(found->site, found->confidence)) : nb::none();
}

nb::list poll(HeapLog& self) {
  nb::list rows;
  for (const sources::LargeEvent& event : self.poll())
    rows.append(nb::make_tuple(event.time, event.is_birth, event.address.value, event.size,
                               event.site, event.thread));
  return rows;
}

nb::dict sites(HeapLog& self) {
  nb::dict rows;
  for (const sources::HeapSite& site : unwrap(self.sites())) {
    std::vector<std::uint64_t> frames;
    for (Address frame : site.frames) frames.push_back(frame.value);
    rows[nb::cast(site.number)] = nb::make_tuple(frames, site.blocks, site.bytes);
  }
  return rows;
}

nb::dict lost(HeapLog& self) {
  const sources::HeapLost lost = self.lost();
  nb::dict row;
  row["without_mark"] = lost.without_mark;
  row["without_site"] = lost.without_site;
  row["without_thread"] = lost.without_thread;
  row["without_record"] = lost.without_record;
  row["without_live"] = lost.without_live;
  return row;
}

nb::dict image(HeapLog& self) {
  const sources::HeapImage image = self.image();
  nb::dict row;
  row["pid"] = image.pid;
  row["number"] = image.number;
  row["parent_pid"] = image.parent_pid;
  row["parent_number"] = image.parent_number;
  row["begun"] = image.begun;
  row["unwound"] = image.unwound;
  row["walked"] = image.walked;
  row["passed"] = image.passed;
  return row;
}

}  // namespace

void bind_heap_log(nb::module_& m) {
  nb::class_<HeapLog>(m, "HeapLog", "The allocation log of one process image.")
      .def("__init__", &make, nb::arg("path"))
      .def("find", &find, nb::arg("address"),
           "(site, is_large, start, size) of the live block that holds an address, or None.")
      .def(
          "guess", &guess, nb::arg("address"),
          "(site, confidence) by the blocks there and beside it, where small blocks were let pass; "
          "else None.")
      .def("poll", &poll,
           "(time, is_birth, address, size, site, thread) of large blocks since the last call.")
      .def("sites", &sites, "{site: (return addresses, blocks, bytes)}, innermost first.")
      .def("lost", &lost)
      .def("image", &image);
}

}  // namespace stallscope
