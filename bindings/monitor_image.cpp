// SPDX-License-Identifier: Apache-2.0
#include "monitor_image.h"

#include <nanobind/stl/string.h>

namespace nb = nanobind;

namespace stallscope {
namespace {

std::uint64_t word(const nb::dict& from, const char* key) {
  return nb::cast<std::uint64_t>(from[key]);
}

monitor::Detector detector_of(const nb::dict& from) {
  monitor::Detector made;
  made.event = static_cast<monitor::Event>(nb::cast<unsigned>(from["event"]));
  made.high = nb::cast<bool>(from["high"]);
  made.stalls = nb::cast<bool>(from["stalls"]);
  made.match = word(from, "match");
  made.care = word(from, "care");
  made.data_match = word(from, "data_match");
  made.data_care = word(from, "data_care");
  made.cores = word(from, "cores");
  made.every = word(from, "every");
  made.needs_data = nb::cast<bool>(from["needs_data"]);
  return made;
}

nb::dict account_of(const monitor::Account& from) {
  nb::dict out;
  out["busy"] = from.busy;
  out["starting"] = from.starting;
  out["waking"] = from.waking;
  out["suspended"] = from.suspended;
  out["low_power"] = from.low_power;
  out["instructions"] = from.instructions;
  out["tasks"] = from.tasks;
  out["signals"] = from.signals;
  out["dropped_high"] = from.dropped_high;
  out["dropped_low"] = from.dropped_low;
  out["unknown"] = from.unknown;
  out["dropped_sends"] = from.dropped_sends;
  out["faults"] = from.faults;
  out["runaways"] = from.runaways;
  out["longest_high"] = from.longest_high;
  out["longest_low"] = from.longest_low;
  return out;
}

}  // namespace

monitor::Image monitor_image_of(const nb::dict& from) {
  monitor::Image image;
  const auto bytes = nb::cast<nb::bytes>(from["scratch"]);
  const auto* first = reinterpret_cast<const std::uint8_t*>(bytes.c_str());
  image.scratch.assign(first, first + bytes.size());
  for (nb::handle one : nb::cast<nb::list>(from["detectors"]))
    image.detectors.push_back(detector_of(nb::cast<nb::dict>(one)));
  image.boot = word(from, "boot");
  return image;
}

monitor::Config monitor_config_of(const nb::dict& from) {
  monitor::Config config;
  for (auto [key, value] : from) {
    const auto name = nb::cast<std::string>(key);
    const auto number = nb::cast<std::uint64_t>(value);
    const auto narrow = static_cast<std::uint32_t>(number);
    if (name == "high_queue") config.high_queue = narrow;
    if (name == "low_queue") config.low_queue = narrow;
    if (name == "scratch") config.scratch = narrow;
    if (name == "send_buffer") config.send_buffer = narrow;
    if (name == "wake") config.wake = narrow;
    if (name == "task_limit") config.task_limit = number;
  }
  return config;
}

nb::dict monitor_state_of(const monitor::Monitor& from) {
  nb::dict out;
  out["now"] = from.now();
  out["pc"] = from.pc();
  out["running"] = from.running();
  out["signal"] = from.running_signal();
  out["next_word"] = from.next_word();
  out["high"] = from.queued(true);
  out["low"] = from.queued(false);
  nb::list registers, detectors, faults;
  for (const std::uint64_t value : from.registers()) registers.append(value);
  for (std::uint32_t signal = 0; signal < monitor::kSignals; ++signal) {
    const monitor::Detector& one = from.detectors()[signal];
    detectors.append(nb::make_tuple(from.handler(signal), one.matched, one.sent, one.every));
  }
  for (const monitor::Fault& fault : from.faults())
    faults.append(nb::make_tuple(fault.what, fault.cycle, fault.pc, fault.signal));
  out["registers"] = registers;
  out["detectors"] = detectors;
  out["faults"] = faults;
  out["account"] = account_of(from.account());
  return out;
}

nb::list monitor_scratch_of(const monitor::Monitor& from) {
  nb::list out;
  std::uint64_t word = 0;
  for (std::uint64_t at = 0; from.read(at, word); at += 8) out.append(word);
  return out;
}

nb::list monitor_acts_of(const monitor::Group& from, std::size_t first) {
  nb::list out;
  for (std::size_t i = first; i < from.acts().size(); ++i) {
    const monitor::Act& act = from.acts()[i];
    out.append(nb::make_tuple(act.monitor,
                              monitor::kFeatureList[static_cast<unsigned>(act.feature)].name, act.a,
                              act.b, act.cycle));
  }
  return out;
}

}  // namespace stallscope
