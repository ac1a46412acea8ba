// SPDX-License-Identifier: Apache-2.0
// Why each miss happened, by Hill's three kinds. Beside every cache and TLB stands a fully
// associative one under LRU, with as many lines, that takes the same look-ups:
//   cold      the line was never looked up at this level before
//   capacity  the fully associative one does not have it either
//   conflict  that one has it: lost to where lines may go, to another policy than LRU, or to an
//             inclusive level outside that threw it out
// The kind belongs to the single miss, so counts are never negative, also under policies that lose
// against LRU here and win there. What is a look-up: every access at the first level, and at an
// outer one what the levels inside did not have, or stores that they pass on. Prefetches are no
// look-ups, and bring nothing into the fully associative ones. An exclusive level is compared with
// an ordinary cache.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "machine/access.h"
#include "machine/config.h"
#include "probes/buckets.h"
#include "probes/full_lru.h"
#include "probes/misses.h"
#include "probes/tally.h"
#include "stallscope_tables.h"

namespace stallscope::probes {

class Classify {
 public:
  Classify(const machine::MachineConfig& config, Buckets& buckets);

  // While the machine takes an access.
  void on_miss(const machine::Miss& miss) {
    if (miss.cause == machine::Cause::demand && miss.kind != machine::AccessKind::prefetch)
      missing_.push_back({miss.level, miss.counted, miss.line_address});
  }
  void on_translation_miss(const machine::TranslationMiss& miss) {
    if (miss.kind != machine::AccessKind::prefetch)
      missing_.push_back({caches_ + miss.tlb, miss.counted, miss.page_address});
  }
  // When it has taken it. Every access, also one that hit.
  void data(std::uint64_t address, std::uint32_t size, machine::AccessKind kind,
            std::uint32_t operation) {
    take(data_, address, size, kind, operation);
  }
  void fetch(std::uint64_t address, std::uint32_t size) {
    take(fetch_, address, size, machine::AccessKind::fetch, kNone32);
  }

  void enter(std::uint32_t region) { tally_.enter(region); }
  void fill(MissClassTable& table) const;

 private:
  struct Level {
    std::uint32_t number;  // caches first, then TLBs
    std::uint32_t bits;    // of an address below the line number
    bool write_allocate = true;
    bool write_back = true;
    bool exclusive = false;
    FullLru lru;
  };
  struct Path {
    std::vector<Level*> caches;
    std::vector<Level*> tlbs;
  };
  static constexpr std::uint32_t kJudged = kNone32;
  struct Missing {
    std::uint32_t level;  // or kJudged
    bool counted;
    std::uint64_t address;  // of the line
  };
  struct Kinds {
    std::uint64_t counts[kMaxLevels][3] = {};  // cold, capacity, conflict
  };

  void take(Path& path, std::uint64_t address, std::uint32_t size, machine::AccessKind kind,
            std::uint32_t operation);
  void walk(Path& path, std::uint64_t first, std::uint64_t last, machine::AccessKind kind);
  void translate(Path& path, std::uint64_t first, std::uint64_t last);
  bool look_up(Level& level, std::uint64_t first, std::uint64_t last, bool fill);

  Buckets& buckets_;
  std::uint32_t caches_;
  bool by_line_ = false;  // lines of one access go their own ways
  std::vector<std::unique_ptr<Level>> levels_;
  Path data_, fetch_;
  std::vector<Missing> missing_;  // of the access that the machine takes
  struct Verdict {
    std::uint32_t level;
    std::uint32_t kind;
  };
  std::vector<Verdict> verdicts_;  // of the misses of that access
  Tally<Kinds> tally_;
};

}  // namespace stallscope::probes
