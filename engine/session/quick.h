// SPDX-License-Identifier: Apache-2.0
// The quick way of a simulation, for plain machines when nobody watches every access: blocks are
// gathered into batches, and what their accesses did is counted by stat bucket and operation. Two
// threads take turns at each batch: one gathers it and runs it through the first levels, the other
// through the rest, and counts.
// Changes of stat buckets take their turn with the accesses. Whoever changes them otherwise, or
// reads what was counted, runs the batch first.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "machine/passes.h"
#include "probes/misses.h"
#include "probes/outcomes.h"
#include "probes/sampler.h"
#include "session/code_lines.h"
#include "session/relay.h"
#include "stallscope_records.h"
#include "stream/code_table.h"

namespace stallscope::session {

class Quick {
 public:
  // All outlive this. `event` is the level whose misses the sampler counts; `alone`: on one thread.
  Quick(machine::Machine& machine, const stream::CodeTable& code, CodeLines& lines,
        probes::Buckets& buckets, probes::Sampler& sampler, unsigned event, bool alone = false);

  std::size_t exits() const { return exits_.size(); }
  void learn_exits();  // that are new

  // `exit` is below exits().
  void on_block(std::uint32_t exit, const std::uint64_t* addresses);
  // The same for the blocks that stand in a row at the front of a stretch of the stream, as far as
  // they are known: the words that they take. Counts them in `taken`, by exit.
  std::size_t on_blocks(std::span<const std::uint64_t> words, std::uint64_t* taken);

  // What capture has sifted already; `kept` is the record's tail.
  Status on_sifted(const ss_sifted& sifted, std::string_view kept);

  // A change of stat buckets.
  enum class Change : std::uint32_t { allocate, revive, release, unmap };
  struct Deferred {
    std::uint32_t before;  // the access with this number; set by defer()
    std::uint32_t site;
    Change change;
    std::uint64_t address;
    std::uint64_t size;
  };
  static void apply(const Deferred& deferred, probes::Buckets& buckets);
  // It happens where the program has got to.
  void defer(Deferred deferred) {
    if (deferred_.size() == SS_BATCH_ROOM) enter();
    deferred.before = static_cast<std::uint32_t>(gathered_.data);
    deferred_.push_back(deferred);
  }

  // Everything so far through the machine, and counted. Then stat buckets, sampler and machine may
  // be used, until the next block.
  void run();
  // What follows happens in this region; after run().
  void enter_region(std::uint32_t region) { outcomes_.enter(region); }

  std::uint64_t instructions() const { return sieve_.instructions; }
  std::uint64_t accesses() const { return accesses_ + gathered_.data; }
  std::uint64_t absent() const { return absent_; }
  // After run(): what the machine's counters have of prefetches, by level; TLBs are numbered behind
  // the caches. Of first levels without accesses, which the machine does not count here.
  struct Uncounted {
    std::uint64_t accesses = 0, misses = 0;
  };
  std::vector<Uncounted> uncounted() const;
  // After run(): brings the machine's counters up to date; adds what was counted.
  void count();
  void add_to(probes::Misses& misses) const;

 private:
  // What goes from thread to thread.
  struct Turn {
    machine::Missed missed;
    std::vector<Deferred> deferred;
    std::vector<std::uint64_t> victims;     // tags; of the misses that will be sampled
    std::size_t sampled = 0;                // of these
    std::size_t operations = 0;             // that are known
    std::vector<std::uint32_t> prefetches;  // of these, those that became known since the last turn
  };
  // What an outcome means.
  struct Meaning {
    std::uint32_t missed = 0;   // levels, a bit each
    std::uint32_t latency = 0;  // of the level that served it
    std::uint32_t translation = 0;
    std::uint8_t served = 0;  // number of the cache
    bool event = false;
  };
  // Filters what was gathered, and lets it in.
  void enter(bool at_once = false);
  // What the lists have through the first levels; what these did not have to the other thread, once
  // it is enough, or at once.
  void pass(bool at_once);
  // Puts what was sifted elsewhere into the batch and its lists; false where it cannot be.
  bool unpack(const ss_sifted& sifted, const std::uint64_t* addresses);
  // Where the first data cache's misses are sampled: remembers whom those threw out that the second
  // thread will take, so that nobody else's victims have to travel.
  void foresee_samples(Turn& turn);
  // The second thread's part: the outer levels, and whose misses they were.
  void take(Turn& turn);
  void visit(Turn& turn, const machine::Outcomes& outcomes, std::uint32_t from, std::uint32_t to);
  // Where no event raises the interrupt; how many there were.
  template <bool Prefetches>
  std::uint64_t visit_unsampled(const machine::Missed& missed, const machine::Outcomes& outcomes,
                                std::uint32_t from, std::uint32_t to);
  void on_large_block(std::uint32_t exit, const std::uint64_t* addresses);
  void sample(Turn& turn, std::uint32_t index, machine::Outcome outcome);
  Meaning meaning_of(const machine::Machine& machine, machine::Outcome outcome,
                     unsigned event) const;

  const stream::CodeTable& code_;
  CodeLines& lines_;
  probes::Buckets& buckets_;
  probes::Sampler& sampler_;
  probes::Sampler foreseen_;  // the same, as far as the first thread has got
  std::uint32_t event_line_;  // bytes of a line of the event's cache
  machine::Passes passes_;
  probes::Outcomes outcomes_;
  std::array<Meaning, machine::kOutcomes> meanings_;
  std::vector<ss_sieve_exit> exits_;           // by exit
  std::vector<std::uint8_t> spans_;            // by operation, and a few more
  std::vector<std::uint32_t> sizes_;           // by operation; 0 of a prefetch
  std::vector<std::uint32_t> new_prefetches_;  // operations that the second thread does not know of
  bool prefetches_ = false;                    // some operation is one
  std::vector<std::uint32_t> events_;          // of foresee_samples(), kept for its storage
  // Of the second thread.
  std::vector<bool> is_prefetch_;  // by operation, as far as there are any
  std::array<std::uint64_t, machine::kOutcomes> prefetched_{};
  machine::Gate data_, fetch_;
  ss_sieve sieve_{};
  bool stale_ = false;          // the gates have not seen what went through last
  std::uint64_t accesses_ = 0;  // that went through
  std::uint64_t absent_ = 0;    // of these: that did not happen, and prefetches
  std::uint64_t fetches_ = 0;   // that went through and the machine has not been told of
  std::unique_ptr<machine::Batch> batch_memory_ = std::make_unique<machine::Batch>();
  machine::Batch& batch_ = *batch_memory_;  // that is being gathered
  ss_batch& gathered_ = batch_.gathered;
  std::vector<Deferred> deferred_;
  std::unique_ptr<Turn> own_ = std::make_unique<Turn>();  // that is being filled
  Relay<Turn> relay_;                                     // last, so that its thread ends first
};

}  // namespace stallscope::session
