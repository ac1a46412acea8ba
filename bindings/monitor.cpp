// SPDX-License-Identifier: Apache-2.0
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include "bindings.h"
#include "monitor_image.h"

namespace nb = nanobind;

namespace stallscope {
namespace {

using monitor::Detector;
using monitor::Event;
using monitor::Feature;
using monitor::Group;

nb::list instructions() {
  const char* const formats[] = {"three", "literal", "memory", "branch", "jump",
                                 "reg",   "none",    "signal", "check",  "act"};
  nb::list found;
  for (const monitor::Entry& entry : monitor::instructions())
    found.append(nb::make_tuple(entry.name, formats[static_cast<unsigned>(entry.format)],
                                entry.code, entry.function, entry.cycles, entry.meaning));
  return found;
}

const char* place_of(monitor::Place place) {
  return place == monitor::Place::both   ? "both"
         : place == monitor::Place::live ? "live"
                                         : "simulated";
}

nb::list events() {
  nb::list found;
  for (const monitor::EventEntry& entry : monitor::kEventList)
    found.append(nb::make_tuple(entry.name, entry.source, entry.meaning, place_of(entry.place)));
  return found;
}

nb::list features() {
  nb::list found;
  for (const monitor::FeatureEntry& entry : monitor::kFeatureList)
    found.append(nb::make_tuple(entry.name, entry.meaning, place_of(entry.place)));
  return found;
}

std::uint32_t encode(const std::string& name, unsigned rd, unsigned ra, unsigned rb,
                     std::int32_t literal) {
  for (const monitor::Entry& entry : monitor::instructions())
    if (name == entry.name)
      return monitor::encode({entry.opcode, static_cast<std::uint8_t>(rd),
                              static_cast<std::uint8_t>(ra), static_cast<std::uint8_t>(rb),
                              literal});
  raise({"there is no instruction " + name, "", ""});
}

nb::object decode(std::uint32_t word) {
  const auto found = monitor::decode(word);
  if (!found) return nb::none();
  return nb::make_tuple(monitor::entry_of(found->opcode).name, found->rd, found->ra, found->rb,
                        found->literal);
}

// One or several cores without a machine around them.
class Alone {
 public:
  std::uint32_t add(const nb::dict& image, const nb::dict& config) {
    return unwrap(group_.add(monitor_config_of(config), monitor_image_of(image)));
  }
  std::uint64_t notify(unsigned event, std::uint64_t cycle, std::uint32_t core,
                       std::uint64_t address, std::uint64_t data, std::uint64_t count) {
    return group_.notify({static_cast<Event>(event), core, address, data}, cycle, count);
  }
  void advance(std::uint64_t cycle) { group_.advance(cycle); }
  bool step(std::size_t number) { return at(number).step(); }
  bool write(std::size_t number, std::uint64_t address, std::uint64_t value, std::uint64_t cycle) {
    return at(number).write(address, value, cycle);
  }
  nb::object read(std::size_t number, std::uint64_t address) {
    std::uint64_t value = 0;
    if (!at(number).read(address, value)) return nb::none();
    return nb::cast(value);
  }
  nb::dict state(std::size_t number) { return monitor_state_of(at(number)); }
  nb::list acts(std::size_t first) { return monitor_acts_of(group_, first); }
  void set_feature(unsigned feature, std::uint64_t value) {
    group_.set_feature(static_cast<Feature>(feature), value);
  }

 private:
  monitor::Monitor& at(std::size_t number) {
    if (number >= group_.size()) raise({"there is no such monitor", "", ""});
    return group_.at(number);
  }
  Group group_;
};

}  // namespace

void bind_monitor(nb::module_& m) {
  m.def("monitor_instructions", instructions,
        "(name, format, code, function, cycles, meaning) of a monitor's instructions.");
  m.def("monitor_events", events, "(name, source, meaning, where) of what a monitor can watch.");
  m.def("monitor_features", features,
        "(name, meaning, where) of what a monitor can ask for or change.");
  m.def("monitor_encode", encode, nb::arg("name"), nb::arg("rd"), nb::arg("ra"), nb::arg("rb"),
        nb::arg("literal"));
  m.def("monitor_decode", decode, nb::arg("word"));
  nb::class_<Alone>(m, "Monitors", "Monitor cores without a machine around them.")
      .def(nb::init<>())
      .def("add", &Alone::add, nb::arg("image"), nb::arg("config"))
      .def("notify", &Alone::notify, nb::arg("event"), nb::arg("cycle"), nb::arg("core") = 0,
           nb::arg("address") = 0, nb::arg("data") = 0, nb::arg("count") = 1)
      .def("advance", &Alone::advance)
      .def("step", &Alone::step)
      .def("write", &Alone::write)
      .def("read", &Alone::read)
      .def("state", &Alone::state)
      .def("acts", &Alone::acts, nb::arg("first") = 0)
      .def("set_feature", &Alone::set_feature);
}

}  // namespace stallscope
