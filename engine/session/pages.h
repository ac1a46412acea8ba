// SPDX-License-Identifier: Apache-2.0
// The page references of a program, while it is recorded and when its trace is read again: the
// exact LRU curve of every access, for all threads in their order and for each alone, and a log
// without the references to the pages used last. PATH units beside it, one a core, mark what they
// would have logged.
//
// Data accesses only; one that crosses a page's end references both pages.
// A log that leaves out the `hot` pages used last is still exact to within a few pages for
// memories that are larger than that; with `hot` 1 it has every change of page.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <unordered_map>
#include <vector>

#include "base/result.h"
#include "machine/path.h"
#include "probes/buckets.h"
#include "probes/regions.h"
#include "stack/lru_stack.h"
#include "stallscope_tables.h"
#include "stream/code_table.h"

namespace stallscope::session {

struct PageOptions {
  std::uint64_t page_size = 4096;
  std::uint32_t hot = 16;   // pages used last, references to which are not logged
  std::uint32_t cores = 0;  // threads share them in turn; 0: each has its own
  machine::PathConfig path;
};

struct PageTables {
  PageCurveTable curve;
  PageUnitTable unit;
  PageBufferTable buffer;
  BucketTable bucket;
  RegionTable region;
  std::uint64_t instructions = 0;
  std::uint64_t accesses = 0;
  std::uint64_t references = 0;  // to another page than the one before
  std::uint64_t footprint = 0;   // pages
};

class PageTracker {
 public:
  // A sink of the stream whose code table is `code`, which outlives it.
  static Result<std::unique_ptr<PageTracker>> make(const PageOptions& options,
                                                   const stream::CodeTable& code);

  void on_block(std::uint32_t exit, const stream::Exit& info, const std::uint64_t* addresses);
  Status on_record(unsigned tag, const std::uint64_t* words, std::uint32_t count);
  probes::Buckets& buckets() { return buckets_; }

  // The log so far, to be taken away piece by piece. A row is the reference that brought its page
  // among those used last; when that page is written there later, the row is marked, unless it was
  // taken before.
  std::size_t log_rows() const { return log_.rows(); }
  PageLogTable take_log();
  // After everything.
  Result<PageTables> tables();

 private:
  PageTracker(const PageOptions& options, const stream::CodeTable& code);
  // A core's unit, and the same with smaller and larger buffers, which see what its TLB misses.
  struct Core {
    machine::PathUnit unit;
    std::vector<machine::PathUnit> others;
  };
  Core make_core();
  // What is kept for each thread.
  struct Thread {
    std::uint32_t core;
    std::unique_ptr<stack::LruStack> stack;  // nullptr as long as there is one thread
  };
  // A page among those used last.
  struct Hot {
    std::uint64_t page;
    std::uint64_t row;  // of the log, over all pieces
    bool written;
  };
  // The page is used now; whether it was not among those used last. It is the first one afterwards.
  bool warm(std::uint64_t page, bool writes);
  void log(std::uint64_t page, std::uint64_t address, std::uint8_t flags, std::uint64_t moment);
  void log_departures(machine::PathUnit& unit);
  void touch(std::uint64_t page, std::uint64_t address, bool writes);
  void run(std::uint32_t thread);
  Thread& known(std::uint32_t thread);
  void learn();  // what was gathered goes into the stacks
  void mark(unsigned tag, const std::uint64_t* words, std::uint32_t count);
  void fill_units(PageTables& tables) const;
  void fill_curve(std::uint32_t thread, const stack::LruStack& stack, PageCurveTable& table) const;

  PageOptions options_;
  const stream::CodeTable& code_;
  unsigned bits_;
  probes::Buckets buckets_;
  probes::Regions regions_;
  std::vector<Hot> hot_;          // the most recent one first
  machine::PathClock clock_;      // of all units
  std::uint64_t dropped_at_ = 0;  // entries, when idle pages were dropped
  std::vector<Core> cores_;
  std::unordered_map<std::uint32_t, Thread> threads_;
  std::uint32_t thread_ = 1;
  Thread* running_ = nullptr;
  std::uint32_t region_ = 0;
  stack::LruStack stack_;
  std::vector<std::uint64_t> gathered_;  // of the thread that runs
  std::uint64_t last_page_ = ~std::uint64_t{0};
  bool last_written_ = false;
  std::uint64_t instructions_ = 0, accesses_ = 0, references_ = 0;
  Status failed_ = Done{};
  PageLogTable log_;
  std::uint64_t taken_ = 0;  // rows of the log
};

}  // namespace stallscope::session
