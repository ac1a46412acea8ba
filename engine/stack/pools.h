// SPDX-License-Identifier: Apache-2.0
// One memory for several pools of pages: the regions of a program, or programs that run together.
// References come with the pool that each belongs to, in their common order.
//
// A pool throws out only its own pages, by LRU or MRU. Frames that nobody has yet go to whoever
// faults first (with `sharing` fixed, each has an equal share from the start). At the end of each
// epoch every pool's curves of that epoch say which policy would have served it better and what
// more or less memory would have meant; a pool whose other policy is better for long enough changes
// over (its pages stay), and memory moves between pools. With `sharing` global there is one LRU
// order for all and no pool has anything of its own.
//
// Pools that choose their policies for throughput are compared with one LRU order of as much memory
// (rival.h), and live together under that for as long as it serves better than what they would
// choose.
//
// Switching: only in epochs with at least `threshold` misses that are no first references, and when
// the counter, which every such epoch moves by one, has come from one end (0) to the other
// (`patience`).
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "stack/allocation.h"
#include "stack/linked_order.h"
#include "stack/lru_stack.h"
#include "stack/mru_stack.h"
#include "stack/rival.h"

namespace stallscope::stack {

struct PoolOptions {
  std::uint32_t pools = 0;
  std::uint64_t memory = 0;            // pages
  std::uint64_t group = 64;            // pages that change hands at a time
  std::uint64_t epoch = 1'000'000;     // references
  std::string sharing = "throughput";  // or equal (rates), service, fixed, global
  bool choose_policy = false;          // between LRU and MRU; LRU otherwise
  std::uint32_t patience = 3;          // epochs
  std::uint64_t threshold = 100;       // misses in an epoch
  std::vector<double> priorities{};    // of each pool; empty: 1
  std::vector<double> levels{};        // misses per epoch; for service
};

struct PoolState {
  std::uint64_t references = 0;
  std::uint64_t misses = 0;
  std::uint64_t cold = 0;      // of them, first references
  std::uint64_t granted = 0;   // pages it may have; with global, those that it has
  std::uint64_t switches = 0;  // of its policy
  bool mru = false;
  bool together = false;  // its pages are in one LRU order with all others
};

class Pools {
 public:
  static Result<Pools> make(const PoolOptions& options);
  Pools(Pools&&);
  ~Pools();

  // pools[i] is the pool of pages[i]. The same page in two pools is two pages.
  Status append(std::span<const std::uint64_t> pages, std::span<const std::uint32_t> pools);

  std::vector<PoolState> states() const;
  // One row for each pool and ended epoch: what was granted during it, its misses and policy.
  struct Row {
    std::uint64_t epoch;
    std::uint32_t pool;
    PoolState state;  // of that epoch alone
  };
  const std::vector<Row>& history() const { return history_; }

 private:
  struct Pool;
  explicit Pools(const PoolOptions& options);
  bool global() const { return options_.sharing == "global"; }
  bool together() const { return global() || rival_.together(); }
  // Whether the fewest misses are all that is wanted, so that LRU may serve better.
  bool rivalled() const { return options_.choose_policy && options_.sharing == "throughput"; }
  bool ordered() const { return global() || rivalled(); }  // there is an order of all pages
  void access(std::uint32_t pool, std::uint64_t page);
  void make_frame(Pool& pool);
  void throw_out(Pool& pool);
  void throw_out_oldest();
  void drop(Pool& pool, std::uint32_t page);
  Status learn();  // pages of the epoch so far go into the stacks
  Status end_epoch();
  void choose(Pool& pool);
  Result<Sizes> share() const;
  std::uint64_t misses_apart() const;  // of this epoch, with the shares that pools had in it
  Status divide();
  void join();

  PoolOptions options_;
  std::vector<Pool> pools_;
  LinkedOrder order_;  // of all pages in memory, where ordered()
  Rival rival_;
  std::vector<std::pair<std::uint32_t, std::uint32_t>>
      owners_;  // by number: pool, its number there
  std::uint64_t free_, in_epoch_ = 0, epochs_ = 0;
  std::vector<Row> history_;
};

}  // namespace stallscope::stack
