// SPDX-License-Identifier: Apache-2.0
#include "session/system.h"

#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include "bindings.h"
#include "machine_config.h"
#include "monitor_image.h"

namespace nb = nanobind;

namespace stallscope {
namespace {

using session::SystemOptions;
using session::ThreadStreams;

template <typename T>
void take(const nb::dict& from, const char* key, T& into) {
  if (from.contains(key)) into = nb::cast<T>(from[key]);
}

machine::ChipsConfig chips_of(const nb::dict& from) {
  machine::ChipsConfig chips;
  take(from, "cores", chips.cores);
  take(from, "coherent", chips.coherent);
  take(from, "shared", chips.shared);
  take(from, "peer_latency", chips.peer_latency);
  std::string protocol = "moesi";
  take(from, "protocol", protocol);
  const auto found = machine::protocol_of(protocol);
  if (!found) raise({"there is no protocol " + protocol, "there is: moesi, dragon", ""});
  chips.protocol = *found;
  return chips;
}

SystemOptions options_of(const nb::dict& from) {
  SystemOptions options;
  take(from, "bus_line", options.bus_line);
  take(from, "bus_word", options.bus_word);
  take(from, "bus_address", options.bus_address);
  take(from, "memory_line", options.memory_line);
  take(from, "store_buffer", options.store_buffer);
  take(from, "sequential", options.sequential);
  take(from, "slice", options.slice);
  take(from, "context", options.context);
  take(from, "memory_bound", options.memory_bound);
  take(from, "load_up", options.load_up);
  take(from, "shuffled", options.shuffled);
  take(from, "bimodal", options.bimodal);
  take(from, "interrupt", options.interrupt);
  take(from, "prefetch", options.prefetch);
  take(from, "check", options.check);
  take(from, "protocols", options.protocols);
  return options;
}

nb::dict result_of(const session::SystemRun& run, const monitor::Group& monitors) {
  nb::dict out;
  out["cycles"] = run.cycles;
  out["ended"] = run.ended;
  out["idle"] = run.idle;
  out["instructions"] = run.instructions;
  out["accesses"] = run.accesses;
  out["bus_busy"] = run.bus_busy;
  out["bus_waits"] = run.bus_waits;
  out["memory_busy"] = run.memory_busy;
  out["memory_waits"] = run.memory_waits;
  out["misses"] = run.misses;
  out["upgrades"] = run.upgrades;
  out["updates"] = run.updates;
  out["write_invalidates"] = run.write_invalidates;
  out["write_backs"] = run.write_backs;
  out["switches"] = run.switches;
  out["illegal"] = run.illegal;
  out["update_cycles"] = run.update_cycles;
  out["contexts"] = run.contexts;
  out["interrupts"] = run.interrupts;
  out["together"] = run.together;
  nb::list states;
  for (std::size_t i = 0; i < monitors.size(); ++i) {
    nb::dict state = monitor_state_of(monitors.at(i));
    state["scratch"] = monitor_scratch_of(monitors.at(i));
    states.append(state);
  }
  out["monitors"] = states;
  out["acts"] = monitor_acts_of(monitors);
  out["act_count"] = monitors.act_count();
  return out;
}

// Threads of recordings, loaded once and run as often as one likes.
class Threads {
 public:
  void load(const std::string& path, std::uint32_t line_bits, std::uint64_t most,
            const std::vector<std::tuple<std::uint64_t, std::uint64_t, std::uint32_t>>& ranges,
            const std::vector<std::uint64_t>& names, std::uint8_t kind, const std::string& values,
            bool all_values) {
    session::WatchedMemory watched{{}, names, kind, values, all_values};
    for (const auto& [start, end, watch] : ranges) watched.ranges.push_back({start, end, watch});
    const auto program = static_cast<std::uint32_t>(streams_.parties.size());
    auto loaded = [&] {
      nb::gil_scoped_release release;
      return session::load_threads(path, program, line_bits, most, watched, streams_);
    }();
    if (!loaded) raise(loaded.error());
  }
  nb::dict run(const nb::dict& machine, const nb::dict& chips, const nb::dict& options,
               const nb::list& images) {
    const machine::MachineConfig config = machine_config_of(machine);
    const machine::ChipsConfig several = chips_of(chips);
    const SystemOptions wanted = options_of(options);
    monitor::Group monitors;
    for (nb::handle one : images) {
      const auto pair = nb::cast<nb::tuple>(one);
      unwrap(monitors.add(monitor_config_of(nb::cast<nb::dict>(pair[1])),
                          monitor_image_of(nb::cast<nb::dict>(pair[0]))));
    }
    auto done = [&] {
      nb::gil_scoped_release release;
      return session::run_system(streams_, config, several, wanted, monitors);
    }();
    if (!done) raise(done.error());
    return result_of(*done, monitors);
  }
  std::size_t threads() const { return streams_.threads.size(); }
  std::uint64_t accesses() const { return streams_.accesses; }

 private:
  ThreadStreams streams_;
};

}  // namespace

void bind_system(nb::module_& m) {
  nb::class_<Threads>(m, "Threads", "Threads of recordings, for a simulated system.")
      .def(nb::init<>())
      .def("load", &Threads::load, nb::arg("path"), nb::arg("line_bits"), nb::arg("most"),
           nb::arg("ranges"), nb::arg("names"), nb::arg("kind"), nb::arg("values"),
           nb::arg("all_values"))
      .def("run", &Threads::run, nb::arg("machine"), nb::arg("chips"), nb::arg("options"),
           nb::arg("monitors"))
      .def_prop_ro("threads", &Threads::threads)
      .def_prop_ro("accesses", &Threads::accesses);
}

}  // namespace stallscope
