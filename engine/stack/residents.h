// SPDX-License-Identifier: Apache-2.0
// Many LRU caches that see the same lines or parts of them, whatever their sets and ways: one
// look-up tells which of them miss.
//
// When a line was used last is the same for all that saw it then, so it is known once for them,
// beside a bit for each cache that holds it; a hit then costs the same however many caches there
// are. (Where not all see all, older uses stand in a list behind, each with those whose last it
// is.) A set's lines are a
// queue by the last use that it knows of, which may have become later since: whoever stands in
// front is asked again before it is thrown out, and goes to where it belongs. As no line was used
// earlier than its set believes, the first whose last use is as believed is the one to go.
//
// A line that no cache holds is forgotten, so that memory is bounded by what the caches hold.
// One thread at a time.
#pragma once

#include <cstdint>
#include <vector>

#include "base/flat_map.h"

namespace stallscope::stack {

class Residents {
 public:
  static constexpr std::size_t kMost = 64;                     // caches
  static constexpr std::uint32_t kMostWays = 256;              // of them: queues are moved about
  static constexpr std::uint64_t kNoLine = ~std::uint64_t{0};  // lines are at least 8 bytes long

  struct Shape {
    std::uint64_t sets;
    std::uint32_t ways;
  };
  explicit Residents(const std::vector<Shape>& shapes);

  // All use a line. A bit for each cache that did not hold it, in the order of the shapes; all do
  // now.
  std::uint64_t touch(std::uint64_t line) {
    std::uint64_t& top = tops_[line & mask_];
    if (top == line) return 0;
    top = line;
    return use(line, all_);
  }
  // Only these caches use it. Not to be mixed with the above.
  std::uint64_t use(std::uint64_t line, std::uint64_t by);
  std::uint64_t evictions(unsigned cache) const { return caches_[cache].evictions; }

  // The line used last of those that are alike below the mask, which divides all sets: to use it
  // again changes nothing.
  const std::uint64_t* tops() const { return tops_.data(); }
  std::uint64_t mask() const { return mask_; }

 private:
  struct Entry {
    std::uint64_t last;  // use, as far as the set knows
    std::uint32_t line;  // index; kNobody in a place that is free
  };
  struct Cache {
    std::uint64_t sets;
    std::uint64_t mask;  // of the set, where sets are a power of two; else 0
    std::uint32_t ways;
    std::uint64_t evictions = 0;
    std::vector<Entry> entries;        // rings of `ways`, one a set
    std::vector<std::uint32_t> first;  // of the ring, by set
  };
  struct Use {
    std::uint64_t last;
    std::uint64_t by;  // caches whose last use of the line it is
    std::uint32_t older;
  };
  static constexpr std::uint32_t kNobody = ~std::uint32_t{0};

  std::uint32_t index_of(std::uint64_t line);
  void bring_in(std::uint64_t number, std::uint32_t line, unsigned cache);
  static void put_back(Entry* ring, std::uint32_t first, std::uint32_t ways, Entry entry);
  void release(std::uint32_t line, unsigned cache);
  void note(std::uint32_t line, std::uint64_t by);
  void put_behind(std::uint32_t line, std::uint64_t by);
  std::uint64_t last_use(std::uint32_t line, unsigned cache) const;

  std::uint64_t all_, mask_, now_ = 0;
  std::vector<std::uint64_t> tops_;
  std::vector<Cache> caches_;
  // By index.
  std::vector<Use> uses_;               // the last, in front of older ones
  std::vector<std::uint64_t> held_by_;  // caches
  std::vector<std::uint64_t> numbers_;
  std::vector<std::uint32_t> free_;
  std::vector<Use> older_;  // lists, and a list of those that are free
  std::uint32_t free_use_ = kNobody;
  FlatMap<std::uint32_t> indices_;  // by the line's number
};

}  // namespace stallscope::stack
