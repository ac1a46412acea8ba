// SPDX-License-Identifier: Apache-2.0
// Files of other tools.
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "bindings.h"
#include "sources/perf_samples.h"

namespace nb = nanobind;

namespace stallscope {
namespace {

// Names in files are bytes; what is no UTF-8 in them is shown escaped.
nb::object text_of(const std::string& text) {
  return nb::steal(
      PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), "backslashreplace"));
}

nb::list texts_of(const std::vector<std::string>& texts) {
  nb::list list;
  for (const std::string& text : texts) list.append(text_of(text));
  return list;
}

nb::dict facts_of(const sources::PerfFacts& facts) {
  nb::dict dict;
  dict["hostname"] = text_of(facts.hostname);
  dict["os_release"] = text_of(facts.os_release);
  dict["perf_version"] = text_of(facts.perf_version);
  dict["arch"] = text_of(facts.arch);
  dict["cpu"] = text_of(facts.cpu);
  dict["command"] = texts_of(facts.command);
  dict["cpus_available"] = facts.cpus_available;
  dict["cpus_online"] = facts.cpus_online;
  dict["memory_kb"] = facts.memory_kb;
  dict["piped"] = facts.piped;
  dict["compressed"] = facts.compressed;
  nb::list build_ids;
  for (const sources::PerfBuildId& one : facts.build_ids)
    build_ids.append(
        nb::make_tuple(text_of(one.path), nb::bytes(one.build_id.data(), one.build_id.size())));
  dict["build_ids"] = build_ids;
  return dict;
}

nb::list events_of(const std::vector<sources::PerfEvent>& events) {
  nb::list list;
  for (const sources::PerfEvent& event : events) {
    nb::dict dict;
    dict["name"] = text_of(event.name);
    dict["type"] = event.type;
    dict["config"] = event.config;
    dict["period"] = event.period;
    dict["is_frequency"] = event.is_frequency;
    dict["precise"] = event.precise;
    dict["sample_type"] = event.layout.sample_type;
    list.append(dict);
  }
  return list;
}

nb::list notes_of(const std::vector<sources::PerfNote>& notes) {
  nb::list list;
  for (const sources::PerfNote& note : notes)
    list.append(nb::make_tuple(note.kind, note.severity, note.count, note.explanation));
  return list;
}

nb::dict samples_of(const sources::PerfSamples& samples) {
  nb::dict dict;
  dict["event"] = texts_of(samples.event);
  dict["command"] = texts_of(samples.command);
  dict["served"] = samples.served;
  dict["operation"] = samples.operation;
  dict["snoop"] = samples.snoop;
  dict["tlb"] = samples.tlb;
  dict["pid"] = samples.pid;
  dict["tid"] = samples.tid;
  dict["cpu"] = samples.cpu;
  dict["time"] = samples.time;
  dict["ip"] = samples.ip;
  dict["address"] = samples.address;
  dict["weight"] = samples.weight;
  dict["data_source"] = samples.data_source;
  dict["period"] = samples.period;
  dict["locked"] = samples.locked;
  dict["mode"] = samples.mode;
  return dict;
}

nb::dict read_perf_data(const std::string& path) {
  auto file = unwrap(sources::PerfData::open(path));
  sources::SampleCollector collector;
  {
    Status done = Done{};
    {
      nb::gil_scoped_release release;
      done = file.read(collector);
    }
    unwrap(std::move(done));
  }
  nb::dict result;
  result["facts"] = facts_of(file.facts());
  result["events"] = events_of(file.events());
  result["notes"] = notes_of(file.notes());
  result["samples"] = samples_of(collector.samples);
  result["lost"] = collector.samples.lost;
  return result;
}

}  // namespace

void bind_sources(nb::module_& m) {
  m.def("read_perf_data", &read_perf_data, nb::arg("path"),
        "What a perf.data file holds, as perf script would print it.");
}

}  // namespace stallscope
