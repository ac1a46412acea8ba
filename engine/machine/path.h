// SPDX-License-Identifier: Apache-2.0
// Page access tracking hardware (PATH): behind a TLB, a larger page access buffer and a fully
// associative filter keep accesses to hot pages away from a log, which raises an exception when it
// is full. One unit a core.
//
// A write to a page that was only read since it came into a table misses there like an access to a
// page that is not there, so that the log also tells which pages get written.
// Not modelled: instruction fetches; what the exception handler itself does to the tables.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/result.h"
#include "machine/page_sets.h"

namespace stallscope::machine {

struct PathConfig {
  std::uint32_t tlb_entries = 128;
  std::uint32_t tlb_ways = 16;
  std::uint32_t buffer_entries = 2048;
  std::uint32_t buffer_ways = 4;
  std::uint32_t filter_entries = 64;
  std::uint32_t log_entries = 128;
  std::uint32_t refresh = 256;  // entries of the log after which hot pages are read; 0: never
};

struct PathCounters {
  std::uint64_t lookups = 0;        // of the TLB
  std::uint64_t tlb_misses = 0;     // these and what follows: writes to clean pages included
  std::uint64_t buffer_misses = 0;  // that the filter sees
  std::uint64_t logged = 0;
  std::uint64_t exceptions = 0;   // the log was full
  std::uint64_t early_reads = 0;  // it was read before that
  std::uint64_t refreshes = 0;    // times that hot pages were read
  std::uint64_t refreshed = 0;    // pages that were
};

class PathUnit {
 public:
  static Status check(const PathConfig& config);
  // A configuration that check() accepts.
  explicit PathUnit(const PathConfig& config);

  // Whether the access was logged.
  bool access(std::uint64_t page, bool writes) {
    return on_ && !translated(page, writes) && missed(page, writes);
  }
  // The two parts of that: whether the TLB has the page; then, whether what it has not is logged.
  bool translated(std::uint64_t page, bool writes);
  bool missed(std::uint64_t page, bool writes);
  // Hot pages are not logged, so that whoever keeps an LRU stack of the log alone thinks that they
  // are hardly used, and that others are used again after fewer pages than is true. So software
  // reads, every now and then, which pages the TLB and the buffer had for the program since the
  // last time: visit(page) for each. The original design has no such thing. As many entries as it
  // brought the last time must be logged before the next, so that it costs no more than they do.
  bool due() const { return refresh_ && unread_ >= std::max(refresh_, brought_); }
  template <typename Visit>
  void refresh(Visit&& visit) {
    brought_ = 0;
    const auto count = [&](std::uint64_t page) {
      ++brought_;
      visit(page);
    };
    buffer_.visit_found(count);
    tlb_.visit_found(count);
    ++counters_.refreshes;
    counters_.refreshed += brought_;
    unread_ = 0;
  }
  // Off, it sees nothing; its tables are empty when it is turned on again.
  void turn(bool on);
  // Software reads the log before it is full; the entries that were in it.
  std::uint32_t read_early();

  const PathCounters& counters() const { return counters_; }

 private:
  PageSets tlb_, buffer_, filter_;
  std::uint32_t log_entries_, in_log_ = 0;
  std::uint32_t refresh_, unread_ = 0;  // entries since hot pages were read
  std::uint32_t brought_ = 0;           // pages, the last time
  bool on_ = true;
  PathCounters counters_;
};

}  // namespace stallscope::machine
