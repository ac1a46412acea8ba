// SPDX-License-Identifier: Apache-2.0
// The processor's own sampling of loads, with the address, the latency and where the data came
// from, as the kernel shows it below /sys: mem-loads of Intel's PEBS, AMD's IBS, or Arm's SPE.
#pragma once

#include <linux/perf_event.h>

#include <cstdint>
#include <optional>
#include <string>

#include "base/result.h"

namespace stallscope::sources {

inline constexpr const char* kDevices = "/sys/bus/event_source/devices";

struct PreciseLoads {
  std::string name;  // as perf would write it
  std::uint32_t type = 0;
  std::uint64_t config = 0;
  std::uint64_t config1 = 0;      // Intel: the least latency
  unsigned precise = 0;           // what perf_event_attr.precise_ip takes
  bool leaves_out_kernel = true;  // IBS samples everything, and the kernel refuses to leave it out
  // Intel from Sapphire Rapids on: the config of an event that must lead the group of this one.
  std::optional<std::uint64_t> leader;
  // Arm's SPE: it writes packets into memory (aux_area.h), and counts operations, not time.
  bool packets = false;
  std::uint64_t config2 = 0;         // SPE: the least latency
  std::uint64_t least_interval = 1;  // SPE: operations from sample to sample
  std::string processors;            // SPE: those that have it, "0-3,6"; empty: all
};

// The first that there is. `min_latency` in cycles, where the processor can be asked for it.
Result<PreciseLoads> find_precise_loads(std::uint64_t min_latency,
                                        const std::string& devices = kDevices);

// Fills in what such samples need; the rest of `attributes` is the caller's.
void ask_for(const PreciseLoads& loads, unsigned rate, perf_event_attr& attributes);

// The event that leads the group of `attributes`: it counts, and gives no samples.
perf_event_attr leader_of(const PreciseLoads& loads, const perf_event_attr& attributes);

}  // namespace stallscope::sources
