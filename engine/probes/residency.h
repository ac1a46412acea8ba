// SPDX-License-Identifier: Apache-2.0
// How much of each stat bucket stays in each cache, summed up over the instructions of each region.
// Exact: follows every line that comes and goes, and every change of what lies in the lines that
// are there. A line counts for the bucket that holds most of it, its bytes for whom they belong to.
//
// The machine does not tell everything that leaves a cache. What an inclusive cache throws out
// leaves those inside it, and lines move between an exclusive cache and those inside it; both
// follow from what it does tell.
#pragma once

#include <cstdint>
#include <vector>

#include "machine/access.h"
#include "machine/config.h"
#include "probes/buckets.h"
#include "probes/integrals.h"
#include "probes/line_set.h"
#include "stallscope_tables.h"

namespace stallscope::probes {

class Residency final : public Watcher {
 public:
  // Watches `buckets`, which must not have anything yet, and outlives this.
  Residency(const machine::MachineConfig& config, Buckets& buckets);
  ~Residency() { buckets_.watch(nullptr); }
  Residency(const Residency&) = delete;
  Residency& operator=(const Residency&) = delete;

  // Every miss of data and of fetches, in the machine's order.
  void on_miss(const machine::Miss& miss);
  // Instructions done so far.
  void advance(std::uint64_t now) { sums_.advance(now); }
  void enter(std::uint32_t region) { sums_.enter(region); }

  void before_change(std::uint64_t start, std::uint64_t size) override { count(start, size, -1); }
  void after_change(std::uint64_t start, std::uint64_t size) override { count(start, size, 1); }

  // Up to now.
  void fill(ResidentTable& table);
  // What a cache holds, by what it was told.
  bool has(std::uint32_t cache, std::uint64_t address) const {
    return levels_[cache].lines.contains(address >> levels_[cache].bits);
  }
  std::size_t lines(std::uint32_t cache) const { return levels_[cache].lines.size(); }

 private:
  struct Level {
    std::uint32_t index;
    std::uint32_t bits;
    bool inclusive;
    bool exclusive;
    std::vector<std::uint32_t> inside;  // caches that lose what this one loses
    std::int32_t next_for_data = -1;    // outwards
    std::int32_t next_for_fetches = -1;
    LineSet lines;
  };

  Level* next_of(const Level& level, machine::AccessKind kind);
  void come(Level& level, std::uint64_t address);
  void go(Level& level, std::uint64_t address);
  void throw_out(Level& level, const machine::Miss& miss);
  void count(std::uint64_t start, std::uint64_t size, std::int64_t sign);
  void count_line(const Level& level, std::uint64_t line, std::int64_t sign);
  std::size_t number_of(BucketId bucket, std::size_t which) const {
    return bucket * (2 * levels_.size() + 1) + which;
  }

  Buckets& buckets_;
  std::vector<Level> levels_;
  bool filled_ = false;  // the last ordinary cache that missed took the line
  Integrals sums_;       // for each bucket: lines and bytes at each level, and bytes that live
};

}  // namespace stallscope::probes
