// SPDX-License-Identifier: Apache-2.0
// A memory under LRU whose faults bring in more than the page asked for: its neighbours in the
// address space (spatial), or its neighbours in the page proximity graph (proximity).
//
// On a fault the proximity graph learns from the LRU stack over all pages ever seen: the pages
// above the faulting page's old place are those referenced right after it last time. Then the pages
// around it are prefetched; those in memory already are touched, so that they stay. Prefetching
// pauses while too much of memory is prefetched and unused.
//
// Only pages seen before are prefetched: others have no content to read. Not modelled: time; a
// prefetched page is there at once.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "stack/linked_order.h"
#include "stack/numbering.h"
#include "stack/policies/lru.h"
#include "stack/proximity_graph.h"

namespace stallscope::stack {

struct PrefetchOptions {
  std::string kind = "proximity";  // or spatial, none
  std::uint64_t memory = 0;        // pages
  std::uint32_t most = 64;         // pages at once, and the spatial window at the start
  std::uint32_t degree = 10;       // edges a page
  std::uint32_t scan = 64;         // pages of the LRU stack looked at on a fault
  std::uint32_t depth = 3;         // of the graph's traversal
  double unused_share = 0.1;       // of memory that may be prefetched and unused
  bool adapt = false;              // window or depth follow the share of prefetches that were used
};

struct PrefetchCounts {
  std::uint64_t references = 0;
  std::uint64_t faults = 0;
  std::uint64_t cold = 0;            // of them, first references
  std::uint64_t faults_without = 0;  // of the same memory without prefetching
  std::uint64_t prefetched = 0;
  std::uint64_t used = 0;    // prefetched pages that were then referenced
  std::uint64_t wasted = 0;  // those thrown out before
  std::uint64_t touched = 0;
  std::uint64_t writebacks = 0;  // dirty pages thrown out
  std::uint64_t writebacks_without = 0;
  std::uint32_t reach = 0;  // window or depth at the end
  std::uint64_t bytes = 0;
};

class Prefetching {
 public:
  static Result<Prefetching> make(const PrefetchOptions& options);

  // `writes` is empty, or says of each reference whether it writes.
  void append(std::span<const std::uint64_t> pages, std::span<const std::uint8_t> writes = {});
  PrefetchCounts counts() const;

 private:
  enum class Kind { none, spatial, proximity };
  struct Page {
    bool resident : 1;
    bool unused : 1;  // prefetched
    bool dirty : 1;
    bool dirty_without : 1;
  };
  Prefetching(const PrefetchOptions& options, Kind kind);

  void access(std::uint32_t page, bool writes);
  void access_without(std::uint32_t page, bool writes);
  void fault(std::uint32_t page);
  void learn(std::uint32_t page);
  void prefetch_around(std::uint32_t page);
  bool prefetch(std::uint32_t page);  // false: no more for now
  void bring_in(std::uint32_t page);
  void resolved(bool used);  // what became of a prefetched page
  bool seen(std::uint32_t page) const { return page < stack_.size(); }

  PrefetchOptions options_;
  Kind kind_;
  Numbering numbering_;
  Growing<std::uint64_t> numbers_;  // page numbers as the caller knows them
  Growing<Page> pages_;
  LinkedOrder memory_, stack_;  // what is in memory, and every page, by recency
  ProximityGraph graph_;
  Lru without_;
  std::vector<std::uint32_t> window_;
  std::uint64_t pending_ = 0, most_pending_;  // prefetched and unused
  std::uint32_t reach_, recent_ = 0, recent_used_ = 0;
  PrefetchCounts counts_;
};

}  // namespace stallscope::stack
