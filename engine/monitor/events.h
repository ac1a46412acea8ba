// SPDX-License-Identifier: Apache-2.0
// What a machine can tell a monitor about, where it happens, and what a monitor can change.
#pragma once

#include <array>
#include <cstdint>

namespace stallscope::monitor {

enum class Event : std::uint8_t {
  cycles,
  instructions,
  load,
  store,
  l1_miss,
  l2_miss,
  tlb_miss,
  write_invalidate,
  write_update,
  owned_access,
  shared_access,
  peer_fill,
  bus,
  memory_read,
  memory_write,
  software,
  message,
  watched,
  page_fault,
  context_switch
};
constexpr unsigned kEvents = 20;

// Where something happens that monitors can be told of.
enum class Place : std::uint8_t { simulated, live, both };

struct EventEntry {
  const char* name;
  Event event;
  const char* source;
  const char* meaning;
  Place place = Place::simulated;
};

// The only list of events.
constexpr std::array<EventEntry, kEvents> kEventList = {{
    {"cycles", Event::cycles, "core",
     "cycles of a core; of a live process nanoseconds that its threads ran", Place::both},
    {"instructions", Event::instructions, "core", "instructions that were executed"},
    {"load", Event::load, "core", "an access that reads"},
    {"store", Event::store, "core", "an access that writes"},
    {"l1_miss", Event::l1_miss, "cache", "an access that the first data cache does not have"},
    {"l2_miss", Event::l2_miss, "cache", "an access that the second cache does not have"},
    {"tlb_miss", Event::tlb_miss, "tlb", "an access whose page the first TLB does not have"},
    {"write_invalidate", Event::write_invalidate, "interconnect",
     "a write that takes a line away from other caches"},
    {"write_update", Event::write_update, "interconnect",
     "a write that is told to the caches that share its line"},
    {"owned_access", Event::owned_access, "cache", "an access to a line in state owned"},
    {"shared_access", Event::shared_access, "cache", "an access to a line in state shared"},
    {"peer_fill", Event::peer_fill, "interconnect", "a line that another core's cache gives"},
    {"bus", Event::bus, "interconnect", "a transaction; data: cycles that it took"},
    {"memory_read", Event::memory_read, "memory", "a line is read from memory"},
    {"memory_write", Event::memory_write, "memory", "a line is written to memory"},
    {"software", Event::software, "core",
     "a program writes to the monitor's doorbell, or a condition of STALLSCOPE_WHEN holds"},
    {"message", Event::message, "monitor", "another monitor sends a signal", Place::both},
    {"watched", Event::watched, "core",
     "an access to memory that the monitor watches; data: what it holds afterwards", Place::both},
    {"page_fault", Event::page_fault, "kernel", "a page fault of a live process", Place::live},
    {"context_switch", Event::context_switch, "kernel",
     "a thread of a live process is put aside, or waits", Place::live},
}};

// What pmchk asks for and pmsig changes.
enum class Feature : std::uint8_t {
  coherence,    // 0 MOESI, 1 Dragon
  prefetch,     // 0 off, 1 on
  replacement,  // of the shared cache: 0 LRU, 1 bimodal insertion
  interrupt,    // pmsig only: core ra, with word rb
  verdict,      // pmsig only: core ra is memory-bound when rb is not 0
  log,          // pmsig only: words ra and rb go into the log
  grant,        // pmsig only: the lock that core ra asked for is its own when rb is not 0
};
constexpr unsigned kFeatures = 7;

struct FeatureEntry {
  const char* name;
  Feature feature;
  const char* meaning;
  Place place = Place::simulated;
};
constexpr std::array<FeatureEntry, kFeatures> kFeatureList = {{
    {"coherence", Feature::coherence, "0 MOESI, 1 Dragon"},
    {"prefetch", Feature::prefetch, "0 off, 1 on"},
    {"replacement", Feature::replacement, "of the shared cache: 0 LRU, 1 bimodal insertion"},
    {"interrupt", Feature::interrupt, "interrupts core ra with word rb; stops a live process",
     Place::both},
    {"verdict", Feature::verdict, "core ra is memory-bound when rb is not 0"},
    {"log", Feature::log, "words ra and rb into the log", Place::both},
    {"grant", Feature::grant, "the lock that core ra asked for is its own when rb is not 0"},
}};

}  // namespace stallscope::monitor
