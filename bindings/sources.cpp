// SPDX-License-Identifier: Apache-2.0
// Files of other tools.
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include "bindings.h"
#include "sampled.h"
#include "sources/columns.h"
#include "sources/perf_import.h"
#include "sources/perf_samples.h"
#include "sources/trace_reader.h"

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

nb::dict import_perf_data(const std::string& path, symbols::SymbolCache& symbols) {
  Result<std::unique_ptr<sources::PerfImport>> read = Error{};
  {
    nb::gil_scoped_release release;
    read = sources::PerfImport::read(path, symbols);
  }
  const std::unique_ptr<sources::PerfImport> import = unwrap(std::move(read));
  sources::SampledTree& tree = import->tree();
  nb::list images;
  for (const auto& image : tree.images())
    if (image->samples() > 0) images.append(sampled_image(*image, import->started()));
  nb::dict result;
  result["facts"] = facts_of(import->facts());
  result["events"] = events_of(import->events());
  result["notes"] = notes_of(import->notes());
  result["lost"] = tree.lost();
  result["samples"] = tree.samples();
  result["started_ns"] = import->started();
  result["other_files"] = import->other_files();
  result["images"] = images;
  return result;
}

using MappingWords =
    std::tuple<std::uint64_t, std::uint64_t, std::uint64_t, std::uint32_t, std::string>;

// A trace of addresses on its way into a stream. Called from one thread; the GIL is released while
// a piece is read.
class TraceImport {
 public:
  TraceImport(const std::string& output, const std::vector<std::string>& command,
              const std::vector<MappingWords>& maps, const std::string& format,
              const std::string& name, std::uint64_t most)
      : name_(name), most_(most) {
    std::vector<sources::TracedMapping> mappings;
    for (const auto& [start, end, offset, access, path] : maps)
      mappings.push_back({start, end, offset, access, path});
    stream_ = unwrap(sources::AccessStream::create(output, command, mappings));
    if (format != "columns") reader_ = unwrap(sources::make_reader(format, *stream_, name, most));
  }

  void feed(nb::bytes bytes) {
    const auto span = std::as_bytes(std::span(bytes.c_str(), bytes.size()));
    run([&] { return reader_->feed(span); });
  }

  // Each is the bytes of as many 64-bit numbers, or empty for what is not known. `kinds` has a
  // byte for each.
  void feed_columns(nb::bytes addresses, nb::bytes sizes, nb::bytes kinds, nb::bytes ips,
                    nb::bytes threads, nb::bytes times) {
    const auto words = [](const nb::bytes& bytes) {
      return sources::Words(reinterpret_cast<const std::byte*>(bytes.c_str()), bytes.size() / 8);
    };
    const sources::Words address = words(addresses), size = words(sizes), ip = words(ips),
                         thread = words(threads), time = words(times);
    const auto* kind = reinterpret_cast<const std::uint8_t*>(kinds.c_str());
    const std::size_t kinds_size = kinds.size();
    run([&]() -> Status {
      for (std::size_t i = 0; i < address.size() && !full(); ++i) {
        sources::AccessRow row;
        row.address = address[i];
        if (i < size.size()) row.size = size[i];
        if (i < ip.size()) row.ip = ip[i];
        if (i < thread.size()) row.thread = thread[i];
        if (i < time.size()) row.time = time[i];
        if (i < kinds_size) row.kind = kind[i];
        if (Status done = rows_.add(row, *stream_); !done)
          return Error{name_ + " cannot be read at row " + std::to_string(row_ + i),
                       done.error().why, done.error().now};
      }
      row_ += address.size();
      return Done{};
    });
  }

  nb::dict finish() {
    run([&]() -> Status {
      if (reader_)
        if (Status done = reader_->finish(); !done) return done;
      return stream_->close();
    });
    nb::dict dict;
    dict["instructions"] = stream_->totals().instructions;
    dict["accesses"] = stream_->totals().accesses;
    dict["threads"] = stream_->totals().threads;
    dict["unplaced"] = stream_->totals().unplaced;
    dict["bytes"] = stream_->bytes();
    dict["skipped"] = reader_ ? reader_->skipped() : 0;
    dict["cut_off"] = reader_ && reader_->cut_off();
    nb::list areas;
    for (const auto& area : stream_->areas()) areas.append(nb::make_tuple(area.start, area.size));
    dict["areas"] = areas;
    return dict;
  }

  bool full() const { return most_ != 0 && stream_->totals().accesses >= most_; }
  std::uint64_t accesses() const { return stream_->totals().accesses; }

 private:
  template <typename Work>
  void run(Work&& work) {
    Status done = Done{};
    {
      nb::gil_scoped_release release;
      done = work();
    }
    unwrap(std::move(done));
  }
  std::string name_;
  std::uint64_t most_;
  std::uint64_t row_ = 0;
  std::unique_ptr<sources::AccessStream> stream_;
  std::unique_ptr<sources::TraceReader> reader_;
  sources::AccessRows rows_;
};

nb::dict trace_formats() {
  nb::dict dict;
  for (const sources::TraceFormat& format : sources::trace_formats())
    dict[format.name] = format.explanation;
  return dict;
}

nb::object access_column(const std::string& name) {
  static constexpr const char* kNames[] = {"address", "size", "kind", "ip", "thread", "time"};
  const auto column = sources::column_named(name);
  return column ? nb::cast(kNames[static_cast<int>(*column)]) : nb::none();
}

nb::object access_kind(const std::string& text) {
  std::uint8_t kind = 0;
  return sources::read_kind(text, kind) ? nb::cast(kind) : nb::none();
}

}  // namespace

void bind_sources(nb::module_& m) {
  nb::class_<TraceImport>(m, "TraceImport")
      .def(nb::init<const std::string&, const std::vector<std::string>&,
                    const std::vector<MappingWords>&, const std::string&, const std::string&,
                    std::uint64_t>(),
           nb::arg("output"), nb::arg("command"), nb::arg("maps"), nb::arg("format"),
           nb::arg("name"), nb::arg("most"))
      .def("feed", &TraceImport::feed, nb::arg("bytes"))
      .def("feed_columns", &TraceImport::feed_columns, nb::arg("addresses"), nb::arg("sizes"),
           nb::arg("kinds"), nb::arg("ips"), nb::arg("threads"), nb::arg("times"))
      .def("finish", &TraceImport::finish)
      .def_prop_ro("full", &TraceImport::full)
      .def_prop_ro("accesses", &TraceImport::accesses);
  m.def("import_perf_data", &import_perf_data, nb::arg("path"), nb::arg("symbols"),
        "Facts of a perf.data file, and the tables of every process image that has samples.");
  m.def("trace_formats", &trace_formats, "{name: what it is}");
  m.def("access_column", &access_column, nb::arg("name"), "what a column of that name holds");
  m.def("access_columns", &sources::column_names);
  m.def("access_kind", &access_kind, nb::arg("text"));
  m.def("read_perf_data", &read_perf_data, nb::arg("path"),
        "What a perf.data file holds, as perf script would print it.");
}

}  // namespace stallscope
