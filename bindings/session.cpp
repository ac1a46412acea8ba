// SPDX-License-Identifier: Apache-2.0
// Recording. The engine's own thread reads the rings without the GIL; what is called from Python
// only takes what is ready.
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include "bindings.h"
#include "columns.h"
#include "machine_config.h"
#include "pages.h"
#include "session/recorder.h"
#include "session/recovery.h"
#include "simulation.h"
#include "target/naming.h"

namespace nb = nanobind;

namespace stallscope {
namespace {

nb::list errors_of(const std::vector<Error>& errors) {
  nb::list list;
  for (const Error& error : errors) list.append(nb::make_tuple(error.what, error.why, error.now));
  return list;
}

// Arguments are bytes to the kernel; they become text here as Python does for its own.
nb::list command_of(const target::Target& target) {
  nb::list list;
  for (const std::string& word : target.life.command)
    list.append(nb::steal(
        PyUnicode_DecodeFSDefaultAndSize(word.data(), static_cast<Py_ssize_t>(word.size()))));
  return list;
}

nb::dict life_of(const target::Target& target) {
  nb::dict facts;
  facts["pid"] = target.life.pid;
  // A token begins with the forking process's id; the kernel names another when that one is gone.
  const std::uint64_t forked_by = target.life.fork_token >> 32;
  facts["parent_pid"] = forked_by ? forked_by : target.life.parent_pid;
  facts["forked"] = target.life.fork_token != 0;
  facts["command"] = command_of(target);
  facts["started_ns"] = target.life.started_ns;
  facts["ended_ns"] = target.life.ended_ns;
  facts["ended"] = target.life.ended;
  facts["replaced"] = target.life.replaced;
  facts["exit_code"] = target.life.exit_code;
  facts["measured_all"] = target.measured_all;
  facts["allocations"] = target.heap.allocations();
  facts["frees"] = target.heap.frees();
  facts["peak_heap_bytes"] = target.heap.peak_bytes();
  nb::list waited;
  for (const target::ChildStatus& child : target.waited)
    waited.append(nb::make_tuple(child.pid, child.status));
  facts["waited"] = waited;
  return facts;
}

nb::tuple tables_of(target::Target& target, symbols::SymbolCache& cache) {
  target::Tables made;
  {
    nb::gil_scoped_release release;
    const std::lock_guard lock(cache.mutex());
    made = target::make_tables(target, cache);
  }
  nb::dict totals;
  totals["instructions"] = made.instructions;
  totals["loads"] = made.loads;
  totals["stores"] = made.stores;
  nb::dict tables;
  add_table(tables, std::move(made.thread));
  add_table(tables, std::move(made.module));
  add_table(tables, std::move(made.block));
  add_table(tables, std::move(made.operation));
  add_table(tables, std::move(made.site));
  add_table(tables, std::move(made.object));
  add_table(tables, std::move(made.quality));
  return nb::make_tuple(totals, tables);
}

nb::list rows_left(target::Target& target) {
  nb::list list;
  list.append(nb::make_tuple("object", columns_of(std::make_unique<ObjectTable>(
                                           std::exchange(target.objects, ObjectTable{})))));
  list.append(nb::make_tuple("event", columns_of(std::make_unique<EventTable>(
                                          std::exchange(target.events, EventTable{})))));
  if (target.watched.rows() > 0)
    list.append(nb::make_tuple("watched", columns_of(std::make_unique<WatchedTable>(
                                              std::exchange(target.watched, WatchedTable{})))));
  return list;
}

nb::list batches_of(std::vector<session::Batch> batches) {
  nb::list list;
  for (session::Batch& batch : batches) {
    if (batch.objects)
      list.append(nb::make_tuple(batch.folder, "object", columns_of(std::move(batch.objects))));
    if (batch.events)
      list.append(nb::make_tuple(batch.folder, "event", columns_of(std::move(batch.events))));
    if (batch.watched)
      list.append(nb::make_tuple(batch.folder, "watched", columns_of(std::move(batch.watched))));
    if (batch.page_log)
      list.append(nb::make_tuple(batch.folder, "page_log", columns_of(std::move(batch.page_log))));
  }
  return list;
}

nb::object process_simulation(session::Process& process) {
  session::Simulation* simulation = process.simulation();
  if (simulation == nullptr) return nb::none();
  return simulation_of(simulation->tables(), simulation->instructions(), simulation->accesses());
}

// What is left of the log is a table here, behind the pieces that batches have taken.
nb::object process_pages(session::Process& process) {
  session::PageTracker* tracker = process.tracker();
  if (tracker == nullptr) return nb::none();
  nb::dict found = pages_of(unwrap(tracker->tables()));
  nb::dict tables = nb::cast<nb::dict>(found["tables"]);
  add_table(tables, tracker->take_log());
  return found;
}

std::vector<probes::RangeSet::Range> ranges_of(nb::handle given) {
  std::vector<probes::RangeSet::Range> ranges;
  for (const auto& [start, end, target] :
       nb::cast<std::vector<std::tuple<std::uint64_t, std::uint64_t, std::uint32_t>>>(given))
    ranges.push_back({start, end, target});
  return ranges;
}

std::shared_ptr<const session::ValueTargets> value_targets_of(const nb::dict& given) {
  auto targets = std::make_shared<session::ValueTargets>();
  targets->count = nb::cast<std::uint32_t>(given["count"]);
  targets->program = nb::cast<std::string>(given["program"]);
  targets->ranges = ranges_of(given["ranges"]);
  targets->variables = ranges_of(given["variables"]);
  using Row = std::tuple<std::string, bool, std::uint64_t, std::uint64_t, std::uint32_t>;
  for (const auto& [path, past, from, to, target] : nb::cast<std::vector<Row>>(given["blocks"])) {
    session::HeapWatch bytes;
    bytes.past = past;
    bytes.from = from;
    bytes.to = to;
    bytes.watch = target;
    targets->blocks.push_back({path, bytes});
  }
  return targets;
}

std::vector<bool> values_found(const session::Process& process) {
  return process.kept_values() ? process.kept_values()->found() : std::vector<bool>();
}

nb::tuple progress_of(const session::Recorder& recorder) {
  const session::Progress now = recorder.progress();
  return nb::make_tuple(now.instructions, now.bytes, now.running, now.finished);
}

}  // namespace

void bind_session(nb::module_& m) {
  nb::class_<target::Target>(m, "Target")
      .def("life", &life_of)
      .def("tables", &tables_of, nb::arg("symbols"), "(totals, {table: columns})")
      .def("rows_left", &rows_left, "object and event rows that no batch has taken");
  nb::class_<session::Process>(m, "Process")
      .def_prop_ro("name", &session::Process::name)
      .def_prop_ro("folder", &session::Process::folder)
      .def_prop_ro("complete", &session::Process::complete)
      .def_prop_ro("counted", &session::Process::counted)
      .def_prop_ro("stream_bytes", &session::Process::stream_bytes)
      .def_prop_ro("errors", [](const session::Process& p) { return errors_of(p.errors()); })
      .def_prop_ro("values_found", &values_found, "by target of --values: whether it was there")
      .def("simulation", &process_simulation, "what the machine beside it found, or None")
      .def("pages", &process_pages, "its page references, or None where nobody asked")
      .def_prop_ro("target", &session::Process::target, nb::rv_policy::reference_internal);
  nb::class_<session::Recorder>(m, "Recorder")
      .def(
          "__init__",
          [](session::Recorder* self, std::string session_folder, std::string output_folder,
             bool trace, std::uint64_t max_bytes, symbols::SymbolCache& symbols, nb::object machine,
             nb::dict simulation, nb::object pages, bool values, nb::object value_targets) {
            session::RecorderOptions options;
            options.session_folder = std::move(session_folder);
            options.output_folder = std::move(output_folder);
            options.trace = trace;
            options.values = values;
            if (!value_targets.is_none())
              options.value_targets = value_targets_of(nb::cast<nb::dict>(value_targets));
            options.max_bytes = max_bytes;
            if (!machine.is_none()) {
              options.machine = machine_config_of(nb::cast<nb::dict>(machine));
              options.simulation = simulation_options_of(simulation);
            }
            if (!pages.is_none()) options.pages = page_options_of(nb::cast<nb::dict>(pages));
            new (self) session::Recorder(std::move(options), symbols);
          },
          nb::arg("session_folder"), nb::arg("output_folder"), nb::arg("trace"),
          nb::arg("max_bytes"), nb::arg("symbols"), nb::keep_alive<1, 6>(),
          nb::arg("machine").none() = nb::none(), nb::arg("simulation") = nb::dict(),
          nb::arg("pages").none() = nb::none(), nb::arg("values") = false,
          nb::arg("value_targets").none() = nb::none())
      .def(
          "start", [](session::Recorder& r, std::uint64_t pid) { unwrap(r.start(pid)); },
          nb::arg("pid"))
      .def("stop", &session::Recorder::stop, nb::arg("abandon"),
           nb::call_guard<nb::gil_scoped_release>())
      .def_prop_ro("sieve", &session::Recorder::sieve, "what --ss-sift gets, or nothing")
      .def("progress", &progress_of, "(instructions, bytes, running, finished)")
      .def("take_finished", &session::Recorder::take_finished)
      .def("take_batches", [](session::Recorder& r) { return batches_of(r.take_batches()); });
  nb::class_<session::Recovered>(m, "Recovered")
      .def_ro("truncated", &session::Recovered::truncated)
      .def_ro("truncated_at", &session::Recovered::truncated_at)
      .def_prop_ro(
          "target", [](session::Recovered& r) -> target::Target& { return *r.target; },
          nb::rv_policy::reference_internal);
  m.def(
      "recover",
      [](const std::string& path) {
        Result<session::Recovered> recovered = Error{};
        {
          nb::gil_scoped_release release;
          recovered = session::recover(path);
        }
        return unwrap(std::move(recovered));
      },
      nb::arg("path"), "What a stream on disk says about its process.");
}

}  // namespace stallscope
