// SPDX-License-Identifier: Apache-2.0
// The fast way through a plain machine: a batch of accesses goes through the levels together, one
// pass over all of it for each level. Levels of a plain machine do not look at each other, so each
// sees what it would have seen access by access, in the same order. The passes have no branch that
// depends on what is found, and wait for little.
//
// In front of the passes stands an exact filter, see sieve/sieve.h.
//
// Dirty lines are not kept apart: they change no hit and no miss, and nobody who drives a machine
// this way asks for write-backs. Kinds of accesses neither, in the machine's counters: all count as
// loads.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "machine/batch.h"
#include "machine/gate.h"
#include "machine/machine.h"
#include "machine/repeats.h"
#include "machine/split.h"

namespace stallscope::machine {

class Passes {
 public:
  // Whether a machine can be driven this way, and whether by data accesses alone.
  static bool serves(const Machine& machine);
  static bool serves_data(const Machine& machine);
  // How what enters such a machine is filtered.
  static Gates gates_of(const Machine& machine);
  // The machine outlives this, and nobody else drives it. `watched` is the index of the cache whose
  // victims are wanted.
  Passes(Machine& machine, std::uint32_t watched);

  // Lists what is to be looked up for the batch's data.
  static void list(Batch& batch);
  // What is listed through the first levels. Afterwards lists and marks have what these did not
  // have, see MissedOf. `victims` are wanted where the watched cache is one of these, which takes
  // longer.
  void enter(Batch& batch, bool victims);
  // Whether the watched cache is the first one for data, so that its victims are in the batch.
  bool watches_first() const { return data_.cache.level && watches(data_.cache); }
  // And through all other levels. May run in another thread, while the next is gathered. The
  // outcomes are valid until the next call.
  const Outcomes& go_on(Missed& missed);

  const MachineConfig& config() const { return machine_.config(); }
  // Of a data access: the caches that missed, from the core outwards, and so for TLBs.
  std::uint32_t depth_of(Outcome outcome) const { return outcome % depths_; }
  std::uint32_t translation_depth_of(Outcome outcome) const { return outcome / depths_; }

  // Tells the machine's counters of accesses that were counted by whoever drives it, and brings
  // them up to date.
  void count(std::uint64_t fetches, std::uint64_t loads = 0);
  // The machine is driven access by access again: it knows no settled lines.
  void leave();

 private:
  // What a pass says of each access, besides the list.
  enum class Tells { nothing, marks, outcomes };
  // What it has to look out for: nothing, accesses to several lines, these and victims.
  enum class Looks { no_further, for_crossing, for_victims };
  struct Job {
    const std::uint64_t* addresses;
    const std::uint64_t* last;
    std::uint32_t* list;  // those that miss move to its front
    std::uint32_t count;
    bool crossing;           // some may go to several lines
    std::uint64_t* victims;  // by index; nullptr unless watched
    // By index, where they are told: `mark` if it is missed, else 0; `outcome` in any case.
    std::uint8_t* marks = nullptr;
    std::uint8_t mark = 0;
    Outcome* outcomes = nullptr;
    Outcome outcome = 0;
  };
  using Pass = std::uint32_t (*)(Level&, Job&);
  struct Stage {
    Level* level = nullptr;
    Pass by_looks[3];
    bool first;  // of its path
    // As of the last count().
    std::uint64_t empty;  // ways
    std::uint64_t counted_fills;
    Repeats* repeats = nullptr;
  };
  struct Entry {
    Stage cache{}, tlb{};
  };
  static bool opens(const Machine::Port& port);
  static Stage stage_of(Level& level, Tells tells, bool first);
  template <Tells Told, Looks Out>
  static Pass pass_for(const Level& level);
  void enter_first(Batch& batch, Stage& stage, ss_list& list, ss_marks* marks, std::uint8_t mark,
                   bool victims);
  void go_on_path(Missed& missed, std::vector<Stage>& stages, std::vector<std::uint32_t>& list,
                  std::uint32_t count, bool crossing, Outcome* outcomes, std::uint32_t unit);
  bool watches(const Stage& stage) const;
  static void count_evictions(Stage& stage);
  static std::uint32_t look_up(Stage& stage, Job job);
  // One level; how many accesses it did not have.
  template <typename Set, Tells Told, Looks Out>
  static std::uint32_t pass(Level& level, Job& job);
  template <typename Lru, Tells Told, Looks Out>
  static std::uint32_t pass_avx512(Level& level, Job& job);
  template <typename Lru, Tells Told, Looks Out>
  static std::uint32_t pass_avx2(Level& level, Job& job);
  static bool enter_crossing(Level& level, Job& job, std::uint32_t index);

  Machine& machine_;
  Entry data_, code_;
  std::vector<Stage> caches_, tlbs_;  // behind the first
  std::unique_ptr<Repeats> repeats_;  // of the second cache
  // Of go_on(): what is on its way through them.
  std::vector<std::uint32_t> lines_ = std::vector<std::uint32_t>(Missed::kRoom + kSplitSlack),
                             pages_ = lines_;
  std::unique_ptr<Outcomes> outcomes_ = std::make_unique<Outcomes>();
  std::uint32_t watched_;
  std::uint32_t depths_;  // at which caches can serve an access, memory included
};

// Loads in order, the same as data() for each, on a machine that is clean and serves_data().
void run_loads(Machine& machine, std::span<const std::uint64_t> addresses,
               std::span<const std::uint32_t> sizes);

}  // namespace stallscope::machine
