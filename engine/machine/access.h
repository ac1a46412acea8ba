// SPDX-License-Identifier: Apache-2.0
// What goes into a machine, and what a probe sees come out.
#pragma once

#include <cstdint>

namespace stallscope::machine {

// A modify (read, change, write back) counts as a load, as cachegrind counts it, and dirties.
// A prefetch is one that the program asks for: it brings the line as a load does, but nobody waits,
// and neither it nor what it misses counts.
enum class AccessKind : std::uint8_t { load, store, fetch, modify, prefetch };
constexpr std::uint32_t kKinds = 5;
constexpr bool writes(AccessKind kind) {
  return kind == AccessKind::store || kind == AccessKind::modify;
}

// Stands for an access that did not happen.
constexpr std::uint64_t kNoAddress = ~std::uint64_t{0};

// Of an access to `size` bytes, as far as the address space goes.
constexpr std::uint64_t last_byte(std::uint64_t address, std::uint32_t size) {
  const std::uint64_t last = address + size - 1;
  return last < address ? ~std::uint64_t{0} : last;
}

// What an access is, apart from its address: known before the program runs.
struct Step {
  std::uint32_t size_less_one;  // bytes
  AccessKind kind;
  std::uint8_t reads;  // 1 when it does not write; for prefetches 3, which no line settles

  static Step of(AccessKind kind, std::uint32_t size) {
    return {size - 1, kind,
            static_cast<std::uint8_t>(kind == AccessKind::prefetch ? 3 : !writes(kind))};
  }
};

// Why a line came into a cache.
enum class Cause : std::uint8_t {
  demand,
  prefetch,
  moved,    // thrown out by the cache inside an exclusive one, and kept there
  cleared,  // by the kernel, with its page, before the program's first access to that
};

constexpr std::uint64_t kNoVictim = ~std::uint64_t{0};

// One line that one cache did not have. All addresses are virtual and byte addresses.
struct Miss {
  std::uint32_t level;         // index into MachineConfig::caches
  AccessKind kind;             // of the access, also for the prefetches that it caused
  Cause cause;                 // moved is reported only where it evicts
  bool counted;                // the line that made its access count as a miss of this level
  bool victim_dirty;           // the victim had to be written back
  std::uint64_t line_address;  // first byte of the missing line, in lines of this level
  std::uint64_t address;       // that the program accessed
  std::uint64_t victim;        // first byte of the evicted line; kNoVictim when a way was empty
  bool filled = true;          // the cache took the line; not so where it does not allocate
  bool clearing = false;       // the kernel did it, when it cleared a page
};

struct TranslationMiss {
  std::uint32_t tlb;  // index into MachineConfig::tlbs
  AccessKind kind;
  bool counted;                // the page that made its access count as a miss of this TLB
  std::uint64_t page_address;  // first byte of the page
  std::uint64_t address;       // that the program accessed
};

// An access that missed its first cache or its first TLB, or whose store or prefetches went on to
// other levels.
struct Served {
  std::uint32_t level;        // index into MachineConfig::caches; their number for memory
  AccessKind kind;            //
  std::uint32_t latency;      // cycles, translation included
  std::uint32_t translation;  // cycles thereof
  std::uint64_t address;
};

// The interface of a probe, and the probe that costs nothing. Calls come on the thread that drives
// the machine, in program order: for one access the translation misses, then the misses from the
// core outwards, then on_access_done. Other accesses that hit the first level call nothing.
struct NullProbe {
  void on_miss(const Miss&) {}
  void on_translation_miss(const TranslationMiss&) {}
  void on_access_done(const Served&) {}
  // In a run of accesses: which one the calls that follow are about, and one that does not count:
  // that did not happen, or is a prefetch.
  void at(std::uint32_t) {}
  void on_absent(AccessKind) {}
};

// Of one cache or TLB. An access that crosses lines is one access and at most one miss (as in
// cachegrind), but every line that it brings in is a fill.
struct Counters {
  std::uint64_t accesses[kKinds]{};  // by AccessKind
  std::uint64_t misses[kKinds]{};
  std::uint64_t fills = 0;            // lines brought in by demand or moved in
  std::uint64_t evictions = 0;        // lines thrown out to make room; empty ways filled are none
  std::uint64_t writebacks = 0;       // dirty lines that left
  std::uint64_t invalidations = 0;    // lines that left because an inclusive cache lost them
  std::uint64_t prefetch_fills = 0;   // lines brought in by a prefetcher
  std::uint64_t prefetch_useful = 0;  // of those at their prefetcher's level: accessed in time

  // Without prefetches.
  std::uint64_t total(const std::uint64_t (&by_kind)[kKinds]) const {
    return by_kind[0] + by_kind[1] + by_kind[2] + by_kind[3];
  }
  void add(const std::uint64_t (&looked_up)[kKinds]) {
    for (std::uint32_t kind = 0; kind < kKinds; ++kind) accesses[kind] += looked_up[kind];
  }
  std::uint64_t accessed() const { return total(accesses); }
  std::uint64_t missed() const { return total(misses); }
};

}  // namespace stallscope::machine
