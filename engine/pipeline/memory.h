// SPDX-License-Identifier: Apache-2.0
// When loads and stores finish: the caches of a machine with time added. The machine itself sees
// accesses in program order and knows no time; lines that it counts as present may still be on
// their way, which is kept here.
//
// A load first waits for its translation, then for the data. A miss needs one of the outstanding
// misses; a load that finds none, or meets a store whose data is not known yet, is rejected and
// issued again some cycles later, until it gets through (with core.reject = 0 it waits in its
// unit). Lines from memory pass the bus one after the other. A store is finished when its address
// and data are known and the store buffer has room; retired stores are written one a cycle in
// order, each when its line is there. Lines that prefetchers bring arrive as late as a load's.
//
// Not modelled: bank conflicts, misses of page walks in the caches, loads that pass an older store
// whose address is unknown and turn out to depend on it.
#pragma once

#include <cstdint>
#include <vector>

#include "machine/machine.h"
#include "pipeline/core.h"
#include "pipeline/events.h"

namespace stallscope::pipeline {

constexpr std::uint8_t kNoSource = 0xff;

struct Finished {
  std::uint64_t finish;        // cycle in which the result is there
  std::uint64_t rejected = 0;  // cycles behind its issue that it was rejected again and again
  Cause cause = Cause::load_store;
  std::uint8_t source = kNoSource;  // level that served it, where it missed; caches.size(): memory
  std::uint64_t arrival = 0;        // of a store's line
};

class Memory {
 public:
  Memory(machine::Machine& machine, const CoreConfig& config, Ideal ideal, std::uint32_t bus,
         EventCounts& events);

  Finished load(std::uint64_t address, std::uint32_t size, std::uint64_t issued);
  Finished store(std::uint64_t address, std::uint32_t size, std::uint64_t issued);
  // That the program asks for: finished when it is issued, while its line is on its way. It takes a
  // place among the outstanding misses, for which it may have to wait; the core does not.
  Finished prefetch(std::uint64_t address, std::uint64_t issued);
  // A store of a bundle that retires in this cycle. In program order.
  void retire(const Finished& store, std::uint64_t cycle);
  // When a line of code is there that is asked for in this cycle: the same one if nothing is to be
  // waited for.
  std::uint64_t fetch(std::uint64_t address, std::uint32_t bytes, std::uint64_t cycle);
  std::uint32_t hit() const { return hit_; }
  // Accesses of somebody else, which take no time here.
  void disturb(std::uint64_t address);
  // Misses of loads and stores that were waited for, by the level that had the line.
  const std::vector<std::uint64_t>& served() const { return served_; }

 private:
  static constexpr std::uint32_t kMostAhead = 64;  // lines that one access makes prefetchers bring

  // What the machine says about one access.
  struct Seen {
    explicit Seen(const Memory& its) : memory(its) {}

    const Memory& memory;
    std::uint32_t level = 0, latency = 0, translation = 0;
    bool done = false, missed_first = false, missed_second = false;
    bool missed_tlb = false, walked = false;
    std::uint32_t writebacks = 0;
    std::uint32_t ahead = 0;  // lines that prefetchers brought
    // Those, and the outermost cache that did not have each. Not cleared: every access has these.
    std::uint64_t ahead_lines[kMostAhead];
    std::uint32_t ahead_levels[kMostAhead];

    void on_miss(const machine::Miss& miss);
    void on_translation_miss(const machine::TranslationMiss& miss);
    void on_access_done(const machine::Served& served);
    void on_absent(machine::AccessKind) {}
    void at(std::uint32_t) {}
  };
  struct Coming {  // a line on its way
    std::uint64_t line = ~0ULL, arrival = 0;
    std::uint8_t source = kNoSource;
  };
  struct Stored {  // eight bytes that a store writes
    std::uint64_t granule = ~0ULL, ready = 0, arrival = 0;
  };
  struct Written {  // of the store buffer
    std::uint64_t cycle = 0;
    std::uint8_t source = kNoSource;  // that its line came from, if it waited for that
  };
  static constexpr std::uint32_t kComing = 1024, kStored = 1024;

  Coming& coming(std::uint64_t line) { return coming_[(line ^ line >> 10) & (kComing - 1)]; }
  Stored& stored(std::uint64_t granule) {
    return stored_[(granule ^ granule >> 10) & (kStored - 1)];
  }
  std::uint64_t translated(const Seen& seen, std::uint64_t issued);
  // From when on it may be asked for, after rejections if the misses are full.
  std::uint64_t start_miss(std::uint64_t ready, bool rejects, Finished& out);
  std::uint64_t reissued(std::uint64_t ready, std::uint64_t until, Finished& out);
  std::uint64_t bring(const Seen& seen, std::uint64_t line, std::uint64_t start,
                      std::uint32_t latency);
  void bring_ahead(const Seen& seen, std::uint64_t start);
  void count(const Seen& seen);
  void count_code(const Seen& seen);
  std::uint64_t on_bus(std::uint64_t start);
  bool forwarded(std::uint64_t address, std::uint64_t ready, Finished& out);

  machine::Machine& machine_;
  EventCounts& events_;
  std::uint32_t reject_;
  bool translation_rejects_;
  Ideal ideal_;
  std::uint32_t bus_;
  std::uint32_t hit_;       // cycles of a load that the first data cache has
  std::uint32_t code_hit_;  // the same of a fetch
  std::uint32_t line_bits_;
  std::uint32_t caches_, first_, second_;  // data caches, by number; caches_ when there is none
  std::uint32_t last_;                     // the outermost
  bool write_through_;
  std::vector<std::uint64_t> outstanding_;  // cycles in which they end
  std::uint64_t bus_free_ = 0;
  std::uint64_t quiet_from_ = 0;  // every line that was asked for has arrived then
  std::vector<Coming> coming_;
  std::vector<Stored> stored_;
  std::vector<std::uint64_t> served_;
  std::vector<Written> buffer_;  // a ring
  std::uint64_t retired_stores_ = 0, finished_stores_ = 0;
  std::uint64_t last_write_ = 0;
};

}  // namespace stallscope::pipeline
