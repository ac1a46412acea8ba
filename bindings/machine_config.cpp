// SPDX-License-Identifier: Apache-2.0
#include "machine_config.h"

#include <nanobind/stl/string.h>

#include "bindings.h"

namespace nb = nanobind;

namespace stallscope {
namespace {

machine::Holds holds_of(const std::string& name) {
  if (name == "data") return machine::Holds::data;
  if (name == "instructions") return machine::Holds::instructions;
  if (name == "both") return machine::Holds::both;
  raise({"holds = " + name + " is neither data, instructions nor both", "", ""});
}

machine::Inclusion inclusion_of(const std::string& name) {
  if (name == "neither") return machine::Inclusion::neither;
  if (name == "inclusive") return machine::Inclusion::inclusive;
  if (name == "exclusive") return machine::Inclusion::exclusive;
  raise({"inclusion = " + name + " is neither inclusive, exclusive nor neither", "", ""});
}

template <typename T>
T value(nb::handle from, const char* key) {
  return nb::cast<T>(from[key]);
}

machine::CacheConfig cache_of(nb::handle from) {
  machine::CacheConfig cache;
  cache.name = value<std::string>(from, "name");
  cache.holds = holds_of(value<std::string>(from, "holds"));
  cache.size = value<std::uint64_t>(from, "size");
  cache.ways = value<std::uint32_t>(from, "ways");
  cache.line = value<std::uint32_t>(from, "line");
  cache.policy = value<std::string>(from, "policy");
  cache.write_allocate = value<bool>(from, "write_allocate");
  cache.write_back = value<bool>(from, "write_back");
  cache.inclusion = inclusion_of(value<std::string>(from, "inclusion"));
  cache.latency = value<std::uint32_t>(from, "latency");
  return cache;
}

machine::TlbConfig tlb_of(nb::handle from) {
  machine::TlbConfig tlb;
  tlb.name = value<std::string>(from, "name");
  tlb.holds = holds_of(value<std::string>(from, "holds"));
  tlb.entries = value<std::uint32_t>(from, "entries");
  tlb.ways = value<std::uint32_t>(from, "ways");
  tlb.page = value<std::uint64_t>(from, "page");
  tlb.latency = value<std::uint32_t>(from, "latency");
  return tlb;
}

void add_prefetcher(machine::MachineConfig& config, nb::handle from) {
  machine::PrefetcherConfig prefetcher;
  prefetcher.kind = value<std::string>(from, "kind");
  if (prefetcher.kind == "none") return;
  const auto at = value<std::string>(from, "cache");
  prefetcher.degree = value<std::uint32_t>(from, "degree");
  prefetcher.crosses_pages = value<bool>(from, "crosses_pages");
  for (std::uint32_t i = 0; i < config.caches.size(); ++i)
    if (config.caches[i].name == at) prefetcher.level = i;
  config.prefetchers.push_back(prefetcher);
}

}  // namespace

machine::MachineConfig machine_config_of(const nb::dict& from) {
  machine::MachineConfig config;
  for (nb::handle cache : from["caches"]) config.caches.push_back(cache_of(cache));
  for (nb::handle tlb : from["tlbs"]) config.tlbs.push_back(tlb_of(tlb));
  add_prefetcher(config, from["prefetcher"]);
  config.mapping.random = value<std::string>(from["mapping"], "kind") == "random";
  config.mapping.seed = value<std::uint64_t>(from["mapping"], "seed");
  config.mapping.cleared = value<std::string>(from["mapping"], "first_touch") == "cleared";
  config.memory_latency = value<std::uint32_t>(from, "memory_latency");
  config.page_walk_latency = value<std::uint32_t>(from, "page_walk");
  config.seed = value<std::uint64_t>(from, "seed");
  return config;
}

}  // namespace stallscope
