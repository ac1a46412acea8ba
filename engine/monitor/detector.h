// SPDX-License-Identifier: Apache-2.0
// A detector at an event source: content-addressable match with bits that do not matter, and a mask
// that lets every n-th match through.
#pragma once

#include <cstdint>

#include "monitor/events.h"

namespace stallscope::monitor {

// Something that happened in the machine.
struct Happening {
  Event event;
  std::uint32_t core = 0;
  std::uint64_t address = 0;
  std::uint64_t data = 0;
  bool known = true;  // what `data` is
};

struct Detector {
  Event event = Event::cycles;
  bool high = false;    // its signals go into the queue of high priority
  bool stalls = false;  // the core waits until the task has ended
  std::uint64_t match = 0, care = 0;
  std::uint64_t data_match = 0, data_care = 0;
  std::uint64_t cores = ~std::uint64_t{0};  // a bit each
  std::uint64_t every = 1;
  bool needs_data = false;  // what it leads to looks at data: without, it is not told

  std::uint64_t waiting = 0;  // matches since the last that went through
  std::uint64_t matched = 0, sent = 0;

  bool matches(const Happening& what) const {
    return ((what.data ^ data_match) & data_care) == 0 && matches_place(what);
  }
  bool matches_place(const Happening& what) const {
    return ((what.address ^ match) & care) == 0 && (what.core >= 64 || (cores >> what.core & 1));
  }
  // Whether it would have to know what is not known. A mask may have been set since it was made.
  bool is_blind(const Happening& what) const {
    return !what.known && (needs_data || data_care != 0);
  }
  // How often it lets something through, of `count` matches in a row.
  std::uint64_t count(std::uint64_t count) {
    matched += count;
    waiting += count;
    if (waiting < every) return 0;
    const std::uint64_t through = waiting / every;
    waiting -= through * every;
    sent += through;
    return through;
  }
};

}  // namespace stallscope::monitor
