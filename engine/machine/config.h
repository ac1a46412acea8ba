// SPDX-License-Identifier: Apache-2.0
// What a simulated memory hierarchy is made of. make_machine checks every value.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"

namespace stallscope::machine {

enum class Holds : std::uint8_t { data, instructions, both };
enum class Inclusion : std::uint8_t { neither, inclusive, exclusive };

struct CacheConfig {
  std::string name;
  Holds holds = Holds::both;
  std::uint64_t size = 0;  // bytes
  std::uint32_t ways = 0;
  std::uint32_t line = 64;  // bytes; never smaller than in a cache nearer to the core
  std::string policy = "lru";
  bool write_allocate = true;
  bool write_back = true;  // false: every store goes on to the next level as well
  // inclusive: what this cache throws out leaves the caches nearer to the core too.
  // exclusive: filled only by what the cache inside it throws out; a hit moves the line inwards.
  Inclusion inclusion = Inclusion::neither;
  std::uint32_t latency = 0;  // cycles of an access that this level serves, all told
};

struct TlbConfig {
  std::string name;
  Holds holds = Holds::both;
  std::uint32_t entries = 0;
  std::uint32_t ways = 0;
  std::uint64_t page = 4096;  // bytes
  std::uint32_t latency = 0;  // cycles that a translation served here adds
};

struct PrefetcherConfig {
  std::string kind = "none";
  std::uint32_t level = 0;   // index into MachineConfig::caches: where lines are brought to
  std::uint32_t degree = 1;  // lines brought at a time
  bool crosses_pages = false;
};

struct MappingConfig {
  bool random = false;        // false: physical addresses equal virtual ones
  std::uint64_t page = 4096;  // bytes that stay together
  std::uint64_t seed = 1;     // of the permutation
  // A page of anonymous memory is in the caches when it is first accessed: the kernel cleared it.
  bool cleared = false;
};

struct MachineConfig {
  std::vector<CacheConfig> caches;  // from the core outwards
  std::vector<TlbConfig> tlbs;      // from the core outwards
  std::vector<PrefetcherConfig> prefetchers;
  MappingConfig mapping;
  std::uint32_t memory_latency = 0;     // cycles of an access that memory serves, all told
  std::uint32_t page_walk_latency = 0;  // cycles that a page walk adds
  std::uint64_t seed = 1;               // of random replacement
};

constexpr std::uint32_t kMaxLevels = 6;  // of caches, and of TLBs, on one path

constexpr bool on_data_path(Holds holds) { return holds != Holds::instructions; }
constexpr bool on_fetch_path(Holds holds) { return holds != Holds::data; }

// The first wrong value as an error that names it.
Status check(const MachineConfig& config);

}  // namespace stallscope::machine
