// SPDX-License-Identifier: Apache-2.0
// The vocabulary of the machine's tests.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "machine/machine.h"

namespace stallscope::machine::words {

inline CacheConfig cache(std::string name, std::uint64_t sets, std::uint32_t ways,
                         std::uint32_t line = 64) {
  CacheConfig config;
  config.name = std::move(name);
  config.size = sets * ways * line;
  config.ways = ways;
  config.line = line;
  return config;
}

inline MachineConfig of(std::vector<CacheConfig> caches) {
  MachineConfig config;
  config.caches = std::move(caches);
  return config;
}

// Keeps everything that a probe is told.
struct Log {
  std::vector<Miss> misses;
  std::vector<TranslationMiss> translations;
  std::vector<Served> served;
  void on_miss(const Miss& miss) { misses.push_back(miss); }
  void on_translation_miss(const TranslationMiss& miss) { translations.push_back(miss); }
  void on_access_done(const Served& done) { served.push_back(done); }
};

inline void load(Machine& machine, std::uint64_t address, std::uint32_t size = 1) {
  NullProbe probe;
  machine.data(address, size, AccessKind::load, probe);
}

inline void store(Machine& machine, std::uint64_t address, std::uint32_t size = 1) {
  NullProbe probe;
  machine.data(address, size, AccessKind::store, probe);
}

}  // namespace stallscope::machine::words
