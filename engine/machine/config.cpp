// SPDX-License-Identifier: Apache-2.0
#include "machine/config.h"

#include <bit>
#include <optional>
#include <set>

#include "machine/policies.h"
#include "machine/prefetcher.h"

namespace stallscope::machine {
namespace {

using Fault = std::optional<Error>;

constexpr std::uint64_t kMaxLines = std::uint64_t{1} << 28;
constexpr std::uint32_t kMinLine = 8, kMaxLine = 4096;
constexpr std::uint64_t kMaxPage = std::uint64_t{1} << 30;
constexpr std::uint32_t kMaxDegree = 64;

std::string bytes_text(std::uint64_t bytes) {
  static constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  unsigned unit = 0;
  while (unit < 4 && bytes && bytes % 1024 == 0) bytes /= 1024, ++unit;
  return std::to_string(bytes) + " " + kUnits[unit];
}

Error wrong(const std::string& owner, const char* field, const std::string& value,
            const std::string& reason, std::string now = {}) {
  return {owner + "." + field + " = " + value + ": " + reason, "", std::move(now)};
}

Error wrong(const std::string& owner, const char* field, std::uint64_t value,
            const std::string& reason, std::string now = {}) {
  return wrong(owner, field, std::to_string(value), reason, std::move(now));
}

template <typename Entries>
std::string names_of(const Entries& entries) {
  std::string names;
  for (const auto& entry : entries) names += (names.empty() ? "" : ", ") + std::string(entry.name);
  return names;
}

template <typename Config>
Fault check_names(const std::vector<Config>& configs, const std::string& what) {
  std::set<std::string> seen;
  for (const Config& config : configs) {
    if (config.name.empty()) return Error{"a " + what + " has no name", "", "give it a name"};
    if (!seen.insert(config.name).second)
      return Error{"two " + what + "s have the name " + config.name, "", "give each its own"};
  }
  return {};
}

template <typename Config>
Fault check_depth(const std::vector<Config>& configs, const std::string& what) {
  std::uint32_t data = 0, fetch = 0;
  for (const Config& config : configs) {
    data += on_data_path(config.holds);
    fetch += on_fetch_path(config.holds);
  }
  if (data <= kMaxLevels && fetch <= kMaxLevels) return {};
  return Error{"there are too many " + what + "s",
               "an access would pass more than " + std::to_string(kMaxLevels) + " of them",
               "take some out"};
}

Fault check_policy(const CacheConfig& cache) {
  const PolicyEntry* policy = find_policy(cache.policy);
  if (!policy)
    return wrong(cache.name, "policy", cache.policy, "there is no such policy",
                 "choose one of " + names_of(policies()));
  if (cache.ways > policy->max_ways)
    return wrong(cache.name, "ways", cache.ways,
                 cache.policy + " takes at most " + std::to_string(policy->max_ways) + " ways");
  if (policy->ways_power_of_two && !std::has_single_bit(cache.ways))
    return wrong(cache.name, "ways", cache.ways,
                 cache.policy + " takes a power of two, for the ways are leaves of a binary tree");
  return {};
}

Fault check_geometry(const CacheConfig& cache) {
  if (!std::has_single_bit(cache.line) || cache.line < kMinLine || cache.line > kMaxLine)
    return wrong(cache.name, "line", cache.line, "a line is a power of two from 8 B to 4 KiB");
  if (cache.ways == 0) return wrong(cache.name, "ways", 0, "a cache has at least one way");
  if (cache.size == 0) return wrong(cache.name, "size", 0, "a cache has at least one line");
  if (cache.size % (std::uint64_t{cache.line} * cache.ways) != 0)
    return wrong(cache.name, "ways", cache.ways,
                 bytes_text(cache.size) + " / " + bytes_text(cache.line) + " / " +
                     std::to_string(cache.ways) + " ways is not a whole number of sets");
  if (cache.size / cache.line > kMaxLines)
    return wrong(cache.name, "size", bytes_text(cache.size),
                 "at most " + std::to_string(kMaxLines) + " lines can be simulated");
  return check_policy(cache);
}

// `inner` is the cache next to `outer` on the way to the core, nullptr when there is none.
Fault check_neighbours(const CacheConfig* inner, const CacheConfig& outer) {
  if (!inner) {
    if (outer.inclusion == Inclusion::neither) return {};
    return wrong(outer.name, "inclusion",
                 outer.inclusion == Inclusion::inclusive ? "inclusive" : "exclusive",
                 "no cache is nearer to the core");
  }
  if (outer.line < inner->line)
    return wrong(outer.name, "line", outer.line,
                 inner->name + ", nearer to the core, has lines of " + bytes_text(inner->line) +
                     "; lines may only grow outwards");
  if (outer.inclusion == Inclusion::exclusive && outer.line != inner->line)
    return wrong(outer.name, "line", outer.line,
                 "lines move between an exclusive cache and " + inner->name +
                     ", whose lines have " + bytes_text(inner->line));
  if (outer.inclusion == Inclusion::exclusive && !inner->write_back)
    return wrong(outer.name, "inclusion", "exclusive",
                 "dirty lines would move into " + inner->name + ", which does not write back");
  return {};
}

Fault check_path(const std::vector<CacheConfig>& caches, bool (*on_path)(Holds)) {
  const CacheConfig* inner = nullptr;
  for (const CacheConfig& cache : caches) {
    if (!on_path(cache.holds)) continue;
    if (Fault fault = check_neighbours(inner, cache)) return fault;
    inner = &cache;
  }
  return {};
}

Fault check_caches(const MachineConfig& config) {
  if (Fault fault = check_names(config.caches, "cache")) return fault;
  if (Fault fault = check_depth(config.caches, "cache")) return fault;
  for (const CacheConfig& cache : config.caches)
    if (Fault fault = check_geometry(cache)) return fault;
  bool data = false;
  for (const CacheConfig& cache : config.caches) data |= on_data_path(cache.holds);
  if (!data) return Error{"no cache holds data", "", "add one"};
  if (Fault fault = check_path(config.caches, on_data_path)) return fault;
  return check_path(config.caches, on_fetch_path);
}

Fault check_tlb(const TlbConfig& tlb, std::uint64_t largest_line) {
  if (!std::has_single_bit(tlb.page) || tlb.page < largest_line || tlb.page > kMaxPage)
    return wrong(tlb.name, "page", tlb.page,
                 "a page is a power of two, no smaller than a line and at most 1 GiB");
  if (tlb.ways == 0) return wrong(tlb.name, "ways", 0, "a TLB has at least one way");
  if (tlb.entries == 0) return wrong(tlb.name, "entries", 0, "a TLB has at least one entry");
  if (tlb.entries % tlb.ways != 0)
    return wrong(tlb.name, "ways", tlb.ways,
                 std::to_string(tlb.entries) + " entries / " + std::to_string(tlb.ways) +
                     " ways is not a whole number of sets");
  if (tlb.ways > find_policy("lru")->max_ways || tlb.entries > kMaxLines)
    return wrong(tlb.name, "entries", tlb.entries, "that is too large to simulate");
  return {};
}

Fault check_prefetcher(const PrefetcherConfig& prefetcher, const std::vector<CacheConfig>& caches) {
  if (!find_prefetcher(prefetcher.kind))
    return wrong("prefetcher", "kind", prefetcher.kind, "there is no such prefetcher",
                 "choose one of " + names_of(prefetchers()));
  if (prefetcher.level >= caches.size())
    return wrong("prefetcher", "level", prefetcher.level,
                 "the machine has " + std::to_string(caches.size()) + " caches, counted from 0");
  if (caches[prefetcher.level].inclusion == Inclusion::exclusive)
    return wrong("prefetcher", "level", prefetcher.level,
                 caches[prefetcher.level].name +
                     " is exclusive and takes only what the cache inside it throws out");
  if (prefetcher.degree == 0 || prefetcher.degree > kMaxDegree)
    return wrong("prefetcher", "degree", prefetcher.degree, "a degree is from 1 to 64 lines");
  return {};
}

Fault find_fault(const MachineConfig& config) {
  if (Fault fault = check_caches(config)) return fault;
  std::uint64_t largest_line = 0;
  for (const CacheConfig& cache : config.caches)
    if (cache.line > largest_line) largest_line = cache.line;
  if (Fault fault = check_names(config.tlbs, "TLB")) return fault;
  if (Fault fault = check_depth(config.tlbs, "TLB")) return fault;
  for (const TlbConfig& tlb : config.tlbs)
    if (Fault fault = check_tlb(tlb, largest_line)) return fault;
  for (const PrefetcherConfig& prefetcher : config.prefetchers)
    if (Fault fault = check_prefetcher(prefetcher, config.caches)) return fault;
  const std::uint64_t page = config.mapping.page;
  if (!std::has_single_bit(page) || page < largest_line || page > kMaxPage)
    return wrong("mapping", "page", page,
                 "a page is a power of two, no smaller than a line and at most 1 GiB");
  return {};
}

}  // namespace

Status check(const MachineConfig& config) {
  if (Fault fault = find_fault(config)) return *fault;
  return Done{};
}

}  // namespace stallscope::machine
