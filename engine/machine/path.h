// SPDX-License-Identifier: Apache-2.0
// Page access tracking hardware (PATH): behind a TLB, a larger page access buffer and a fully
// associative filter keep accesses to hot pages away from a log, which raises an exception when it
// is full. One unit a core.
//
// A write to a page that was only read since it came into a table misses there like an access to a
// page that is not there, so that the log also tells which pages get written.
//
// The original design tells what comes into the tables. Ours also tells what leaves them, and when
// that was used last, in the same entry; from that software knows the order of all last uses. Every
// entry of TLB and buffer has the time of its last use for it.
// Not modelled: instruction fetches; what the exception handler itself does to the tables.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

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
  std::uint32_t refresh = 0;     // entries of the log after which hot pages are read; 0: never
  std::uint32_t departures = 1;  // 0: what leaves the tables is not told, as in the original
};

// What the units' times are: how many pages have been logged and, below that, how many lookups were
// made since. One for all units. When lookups run out it goes on as if a page had been logged.
struct PathClock {
  static constexpr unsigned kLookupBits = 16;
  std::uint64_t entries = 0;
  std::uint64_t lookups = 0;

  std::uint64_t now() const { return entries << kLookupBits | lookups; }
  void look() {
    if (++lookups >> kLookupBits) log();
  }
  void log() {
    ++entries;
    lookups = 0;
  }
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
  std::uint64_t left = 0;         // pages whose departure was told
};

class PathUnit {
 public:
  static Status check(const PathConfig& config);
  // A configuration that check() accepts. The clock outlives the unit; without one, no departures
  // are told.
  explicit PathUnit(const PathConfig& config, PathClock* clock = nullptr);

  // Whether the access was logged.
  bool access(std::uint64_t page, bool writes) {
    return on_ && !translated(page, writes) && missed(page, writes);
  }
  // The two parts of that: whether the TLB has the page; then, whether what it has not is logged.
  bool translated(std::uint64_t page, bool writes);
  bool missed(std::uint64_t page, bool writes);
  // Of what was logged last: whether it came into the tables then, or was there and is now written.
  bool came() const { return came_; }
  // visit(page, used) for each page that left TLB and buffer since the last call: when it was used
  // last.
  template <typename Visit>
  void departures(Visit&& visit) {
    for (const PageSets::Gone& gone : left_) visit(gone.page, gone.used);
    left_.clear();
  }
  // Pages that have not been used for so many entries leave, so that no departure comes later than
  // that: times have few bits, and what fills a few sets of the buffer leaves the others alone.
  void drop_idle(std::uint64_t entries);
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
  // Off, it sees nothing; its tables are emptied.
  void turn(bool on);
  // Software reads the log before it is full; the entries that were in it.
  std::uint32_t read_early();

  const PathCounters& counters() const { return counters_; }

 private:
  void enter(bool has_page);
  void tell(PageSets::Gone from_buffer);
  void leave(const PageSets::Gone& gone);
  std::uint64_t now() const { return clock_ ? clock_->now() : 0; }

  PageSets tlb_, buffer_, filter_;
  PathClock* clock_;
  PageSets::Gone from_tlb_;           // whom the TLB's latest miss made leave it
  std::vector<PageSets::Gone> left_;  // told and not yet visited
  bool in_tlb_ = false, came_ = false;
  bool room_ = false;  // in the latest entry, for a page that leaves
  std::uint32_t log_entries_, in_log_ = 0;
  std::uint32_t refresh_, unread_ = 0;  // entries since hot pages were read
  std::uint32_t brought_ = 0;           // pages, the last time
  bool on_ = true;
  PathCounters counters_;
};

}  // namespace stallscope::machine
