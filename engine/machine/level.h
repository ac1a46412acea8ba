// SPDX-License-Identifier: Apache-2.0
// One cache or one TLB (whose lines are pages).
#pragma once

#include <bit>
#include <cstdint>
#include <memory>
#include <vector>

#include "machine/access.h"
#include "machine/config.h"
#include "machine/policies.h"
#include "machine/prefetcher.h"
#include "machine/sets.h"

namespace stallscope::machine {

struct Geometry {
  std::uint64_t sets;
  std::uint32_t ways;
  std::uint64_t line;  // bytes
};

// Never moves: ports and paths point to it.
class Level {
 public:
  Level(std::uint32_t index, const Geometry& geometry, const PolicyEntry& policy,
        std::uint64_t seed, bool keeps_settled);
  Level(const Level&) = delete;
  Level& operator=(const Level&) = delete;

  std::uint64_t set_of(std::uint64_t line) const {
    return power_of_two_ ? line & mask_ : line % geometry_.sets;
  }
  std::uint64_t address_of(std::uint64_t line) const { return line << bits; }

  // The settled line of a set (by its virtual number) is one whose next access changes nothing but
  // a counter (a store only if the line is dirty already). The hot path looks here and nowhere
  // else; whatever else happens to the set must overwrite or clear the entry.
  void settle(std::uint64_t set, std::uint64_t tag) {
    if (!settled.empty()) settled[set] = tag;
  }
  void unsettle(std::uint64_t set) { settle(set, kEmpty); }

  Touched touch(std::uint64_t set, std::uint64_t key, std::uint64_t flags) {
    return operations_.touch(sets_, set, key, flags);
  }
  Sets& sets() { return sets_; }
  bool touches_with(decltype(SetOperations::touch) touch) const {
    return operations_.touch == touch;
  }
  Touched look(std::uint64_t set, std::uint64_t key, std::uint64_t flags) {
    return operations_.look(sets_, set, key, flags);
  }
  std::uint64_t remove(std::uint64_t line) {
    const std::uint64_t set = set_of(line);
    unsettle(set);
    return operations_.remove(sets_, set, key_of(line));
  }
  bool mark(std::uint64_t line, std::uint64_t flags) {
    return operations_.mark(sets_, set_of(line), key_of(line), flags);
  }
  void prefetch_on_host(std::uint64_t line) const {
    const std::uint64_t* tags = sets_.tags + set_of(line) * sets_.stride;
    __builtin_prefetch(tags, 1);
    if (sets_.ways > 8) __builtin_prefetch(tags + 8, 1);
  }

  std::uint64_t set_bytes() const { return geometry_.sets * geometry_.line; }  // apart in one set
  std::uint64_t tag_bytes() const { return words_ * sizeof(std::uint64_t); }
  const Geometry& geometry() const { return geometry_; }
  std::uint64_t settled_mask() const { return settled.empty() ? 0 : mask_; }
  std::vector<std::uint64_t> resident() const;  // tags, in no particular order
  std::uint64_t empty_ways() const;

 private:
  // What every lookup reads stands together.
  SetOperations operations_;
  Sets sets_;
  std::uint64_t mask_;
  Geometry geometry_;
  bool power_of_two_;

 public:
  const std::uint32_t index;  // among the machine's caches, or among its TLBs
  const std::uint32_t bits;   // of an address below the line number
  const bool fill_settles;
  bool write_allocate = true;
  bool write_back = true;
  bool inclusive = false;
  bool exclusive = false;
  std::uint32_t latency = 0;
  std::vector<std::uint64_t> settled;  // a tag for each set; empty where no path begins
  std::vector<Level*> inside;          // caches nearer to the core that this one serves
  struct Attached {
    std::unique_ptr<Prefetcher> prefetcher;
    bool crosses_pages;
  };
  std::vector<Attached> prefetchers;
  Counters counters;

 private:
  const std::uint64_t words_;
  struct Release {
    void operator()(std::uint64_t* words) const;
  };
  std::unique_ptr<std::uint64_t[], Release> tags_;
  std::vector<std::uint64_t> state_;
};

}  // namespace stallscope::machine
