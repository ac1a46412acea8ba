// SPDX-License-Identifier: Apache-2.0
// A machine of several chips, each with cores, each with hardware threads: what it is made of, and
// the words for what happens in it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "machine/config.h"

namespace stallscope::machine {

// Of a line in a cache that keeps coherence. Dragon's words for them: shared is Sc, owned is Sm.
// They mean the same in every protocol, so that one can follow another without a flush; only MESI
// has no owned lines.
enum class State : std::uint8_t { invalid, shared, exclusive, owned, modified };
constexpr unsigned kStates = 5;

// Who gave a line, or the right to write to it.
enum class Source : std::uint8_t {
  inner,          // the core's own first cache, with all rights
  cache,          // the coherent cache behind it, its own or its chip's
  peer,           // the coherent cache of another core of this chip
  outer,          // the chip's outermost cache
  remote_cache,   // a coherent cache of another chip
  remote_outer,   // the outermost cache of another chip
  memory,         // of this chip
  remote_memory,  // of another chip
  upgrade,        // nobody: the line was here, the others only had to hear of a write
};
constexpr unsigned kSources = 9;
std::string_view name_of(Source source);
constexpr bool is_remote_cache(Source source) {
  return source == Source::remote_cache || source == Source::remote_outer;
}

enum class Protocol : std::uint8_t {
  mesi,
  moesi,
  dragon,        // a write to a shared line ends owned, or modified when nobody else has it
  dragon_owned,  // it always ends owned, as one document has it
};
constexpr unsigned kProtocols = 4;
std::string_view name_of(Protocol protocol);
std::optional<Protocol> protocol_of(std::string_view name);

constexpr std::uint32_t kMostCores = 64;
constexpr std::uint32_t kMostContexts = 256;  // hardware threads

// Of a machine whose caches are MachineConfig::caches; those that hold instructions alone, TLBs
// and prefetchers are left out.
struct ChipsConfig {
  std::uint32_t chips = 1;
  std::uint32_t cores = 1;    // a chip
  std::uint32_t threads = 1;  // a core
  Protocol protocol = Protocol::mesi;
  std::string coherent;  // the cache that keeps the states
  std::string
      shared;  // the innermost one that a chip's cores share; empty: behind the coherent one
  std::uint32_t peer_latency = 0;    // cycles, whole times: another core's cache, same chip
  std::uint32_t remote_latency = 0;  // a coherent cache of another chip
  std::uint32_t remote_outer_latency = 0;
  std::uint32_t remote_memory_latency = 0;
  std::uint64_t page = 4096;  // bytes of a page, which belongs to the chip that touches it first

  std::uint32_t all_cores() const { return chips * cores; }
  std::uint32_t contexts() const { return chips * cores * threads; }
  std::uint32_t chip_of(std::uint32_t context) const { return context / (cores * threads); }
  std::uint32_t core_of(std::uint32_t context) const { return context / threads; }
};

// The caches of such a machine by their part in it.
struct ChipsPlan {
  std::optional<CacheConfig> inner;  // in front of the coherent one, for each core
  CacheConfig coherent;
  bool coherent_shared = false;      // by a chip's cores
  std::optional<CacheConfig> outer;  // of each chip
};

// Or what does not fit: `chips.coherent = "L4": there is no such cache for data`.
Result<ChipsPlan> plan_of(const MachineConfig& config, const ChipsConfig& chips);

}  // namespace stallscope::machine
