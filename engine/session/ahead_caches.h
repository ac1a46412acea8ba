// SPDX-License-Identifier: Apache-2.0
// Caches of two threads that share some of them, with the moment at which each line has arrived:
// a prefetch that was too late is neither a hit nor a miss.
// Not modelled: policies other than LRU, write-backs, exclusive and inclusive caches, TLBs, limits
// on misses under way.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "machine/config.h"
#include "machine/prefetcher.h"

namespace stallscope::session {

enum class Served : std::uint8_t { cache, last_level, in_flight, memory };

struct TimedAccess {
  Served served = Served::cache;
  std::uint64_t latency = 0;  // cycles
  bool brought = false;       // the first use of a line that a slice brought
};

class TimedCaches {
 public:
  // `shared_core`: hardware threads of one core share all caches; else only the last one.
  TimedCaches(const machine::MachineConfig& config, bool shared_core, bool hardware_prefetch);

  // `ahead`: by the assist thread's core or by an inline prefetch; `assist` chooses the core.
  TimedAccess access(std::uint64_t address, std::uint64_t now, bool assist, bool ahead);

  // What an access would take now; nothing changes.
  std::uint64_t latency_of(std::uint64_t address, std::uint64_t now, bool assist);

  std::uint64_t first_latency() const { return levels_.front().latency; }

 private:
  struct Line {
    std::uint64_t tag = ~0ULL;
    std::uint64_t ready = 0;
    std::uint64_t used = 0;  // for LRU
    bool ahead = false;
  };
  struct Level {
    std::uint64_t sets = 1;
    std::uint32_t ways = 1;
    std::uint32_t latency = 0;
    std::uint32_t copies = 1;  // one a core, or one for both
    std::vector<Line> lines;
  };

  Line* find(Level& level, std::uint32_t copy, std::uint64_t line);
  void fill(Level& level, std::uint32_t copy, std::uint64_t line, std::uint64_t ready, bool ahead);
  void observe(std::uint64_t line, std::uint64_t now, std::uint32_t core);

  std::vector<Level> levels_;
  unsigned line_bits_ = 6;
  std::uint64_t memory_ = 0;
  std::uint64_t clock_ = 0;
  std::unique_ptr<machine::Prefetcher> prefetchers_[2];
  bool crosses_pages_ = false;
  std::vector<std::uint64_t> wanted_;
};

}  // namespace stallscope::session
