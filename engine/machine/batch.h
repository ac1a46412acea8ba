// SPDX-License-Identifier: Apache-2.0
// Accesses on their way through a machine together; see passes.h.
#pragma once

#include <cstdint>
#include <cstring>

#include "sieve/filter.h"

namespace stallscope::machine {

constexpr std::uint32_t index_of(std::uint32_t entry) { return entry >> 1; }  // see ss_list
constexpr bool crosses(std::uint32_t entry) { return entry & 1; }
// By index, for an entry that does not cross: half an index is half a word.
inline std::uint64_t address_of_single(const std::uint64_t* addresses, std::uint32_t entry) {
  std::uint64_t address;
  std::memcpy(&address, reinterpret_cast<const char*>(addresses) + std::uint64_t{entry} * 4,
              sizeof address);
  return address;
}

// What was gathered and is to enter the machine, and what has to be looked up for it.
struct Batch {
  ss_batch gathered{};
  ss_lookups lookups{};
  ss_list lines, pages;            // of the data in there
  ss_list code_lines, code_pages;  // of the fetches, counted from the first
  bool crossing;                   // some of the data goes to several
  // Which of these the first levels did not have, as marks; together they are what was missed.
  ss_marks missed_lines, missed_pages;
  // For the passes, by index.
  std::uint64_t last[SS_FIRST_FETCH];   // byte; of data accesses that cross lines only
  std::uint64_t victims[SS_BATCH_ALL];  // tags thrown out of the watched cache; where it missed
};

// How far out an access had to go: the depth of the cache that served it, and, times the number of
// such depths, that of the TLB. 0: the first ones had it.
using Outcome = std::uint8_t;
constexpr std::uint32_t kOutcomes = 16;  // at most

// Accesses that the first levels did not have, of several batches, in their order. Goes from one
// thread to another, so that every byte counts.
struct Missed {
  static constexpr std::uint32_t kEnough = 8192;  // accesses; then it is handed on
  static constexpr std::uint32_t kSlack = 32;     // may be written behind the last
  static constexpr std::uint32_t kRoom = kEnough + SS_BATCH_ALL + kSlack;
  static constexpr std::uint32_t kFetch = 0xffffffff;  // in place of an operation
  // What was missed, and whether the access goes to several of them.
  static constexpr std::uint8_t kLine = SS_MARK_LINE, kPage = SS_MARK_PAGE, kLines = SS_MARK_LINES,
                                kPages = SS_MARK_PAGES;

  bool has_enough() const { return count >= kEnough; }
  void clear() { count = wide_count = 0; }
  // The same into memory that another thread has just had: past the caches, or every line would
  // have to come back from its processor first.
  void hand_over(Missed& to) const;

  std::uint32_t count = 0;
  std::uint32_t wide_count = 0;
  alignas(64) std::uint64_t addresses[kRoom];
  alignas(64) std::uint32_t operations[kRoom];
  alignas(64) std::uint8_t what[kRoom];
  std::uint64_t last[kRoom];     // byte; of those that cross lines or pages only
  std::uint32_t wide[kRoom];     // their indices
  std::uint64_t victims[kRoom];  // as above, of caches behind the first; not handed over
};

// Adds what is in a batch's lists, in the order of the program.
class MissedOf {
 public:
  MissedOf(Batch& batch, Missed& to);
  // What came before this data access.
  void add_until(std::uint32_t index);
  void add_rest() { add_until(static_cast<std::uint32_t>(batch_.gathered.data)); }

 private:
  static constexpr std::uint32_t kNone = 0xffffffff;  // behind the last entry of a list
  void add_data(std::uint32_t to);
  void add_listed(std::uint32_t to);
  void add_fetch(std::uint32_t entry);

  const Batch& batch_;
  Missed& missed_;
  std::uint32_t done_ = 0;  // data accesses
  const std::uint32_t *line_, *page_, *code_line_, *code_page_;
  bool few_;  // data accesses, so that looking for their marks would take longer than their lists
};

// How accesses of a Missed fared.
struct Outcomes {
  Outcome of(std::uint32_t index) const {
    return static_cast<Outcome>(caches[index] + tlbs[index]);
  }
  Outcome caches[Missed::kRoom], tlbs[Missed::kRoom];
};

}  // namespace stallscope::machine
