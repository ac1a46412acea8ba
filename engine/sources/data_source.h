// SPDX-License-Identifier: Apache-2.0
// Where a sampled load or store found its data, as the kernel tells it for Intel PEBS, AMD IBS, Arm
// SPE and others in one layout (perf_mem_data_src).
#pragma once

#include <cstdint>
#include <string>

namespace stallscope::sources {

struct DataSource {
  enum class Operation { unknown, load, store, prefetch, execute };
  enum class Level { unknown, l1, lfb, l2, l3, l4, ram, persistent, cxl, cache, io, uncached };
  enum class Found { unknown, hit, miss };
  enum class Snoop { unknown, none, hit, miss, modified };  // modified: another cache held it so

  Operation operation = Operation::unknown;
  Level level = Level::unknown;
  Found found = Found::unknown;
  bool remote = false;    // of another socket or node
  std::uint8_t hops = 0;  // 0: not told or not remote; 1 another core, up to 4 another board
  Snoop snoop = Snoop::unknown;
  bool forwarded = false;  // another cache sent it on
  bool peer = false;       // ... a cache of the same level
  Found tlb = Found::unknown;
  bool tlb_l1 = false, tlb_l2 = false;
  bool tlb_walked = false;  // hardware walked the page table
  bool tlb_os = false;      // the operating system resolved it
  bool locked = false;
  bool blocked_data = false, blocked_address = false;  // on an earlier store

  // "L1 hit", "LFB hit", "RAM", "remote L3 hit, modified", or nothing when it is not known.
  std::string served() const;
  // "L1 or L2 hit", "L2 miss, walked", or nothing.
  std::string tlb_text() const;
};

DataSource decode_data_source(std::uint64_t bits);

const char* name_of(DataSource::Operation operation);
const char* name_of(DataSource::Level level);
const char* name_of(DataSource::Found found);
const char* name_of(DataSource::Snoop snoop);

}  // namespace stallscope::sources
