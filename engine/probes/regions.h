// SPDX-License-Identifier: Apache-2.0
// The regions that a program marks in itself, and what happens in each. Regions nest, and each
// thread has its own: what a thread does counts for the innermost one that it is in, which is told
// from the same region inside another. A region inside itself is one region. Number 0 is outside.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "stallscope_tables.h"

namespace stallscope::probes {

inline constexpr std::uint32_t kMaxRegions = 1 << 16;

class Regions {
 public:
  // Of one cache or TLB.
  struct LevelCounts {
    std::uint64_t accesses = 0;
    std::uint64_t misses = 0;
    std::uint64_t evictions = 0;
  };
  // Of the run so far.
  struct Done {
    std::uint64_t instructions = 0;
    std::uint64_t accesses = 0;
    std::vector<LevelCounts> levels;
  };

  Regions();

  // What the stream says. The thread that says it is the one that runs.
  void begin(std::uint32_t thread, std::string_view name);
  // Ends the innermost region of that name, and those inside it; nothing when there is none.
  void end(std::uint32_t thread, std::string_view name);
  void run(std::uint32_t thread) { thread_ = thread; }
  void exit(std::uint32_t thread) { open_.erase(thread); }

  // The region that the running thread is in.
  std::uint32_t current() const;
  // What was done since the last call was done in `region`.
  void charge(std::uint32_t region, const Done& all);

  // After a last charge().
  void fill(RegionTable& table) const;
  void fill(RegionLevelTable& table) const;

 private:
  struct Node {
    std::uint32_t around;
    std::uint32_t name;
    std::uint64_t entered = 0;
    Done done;
  };
  struct Open {
    std::uint32_t node;
    std::uint32_t name;
  };
  std::uint32_t name_of(std::string_view text);
  std::uint32_t child_of(std::uint32_t parent, std::uint32_t name);

  std::vector<Node> nodes_;
  std::vector<std::string> names_;
  std::unordered_map<std::string, std::uint32_t> by_text_;
  std::unordered_map<std::uint64_t, std::uint32_t> children_;  // parent and name -> node
  std::unordered_map<std::uint32_t, std::vector<Open>> open_;  // by thread
  std::uint32_t thread_ = 0;
  Done charged_;
};

}  // namespace stallscope::probes
