// SPDX-License-Identifier: Apache-2.0
// The data caches of several cores, kept coherent. Counts, sources and latencies, no time: accesses
// come one after the other, and each is finished before the next.
//
// A coherent cache keeps a state for each line. It belongs to one core, or to all cores of a chip;
// each core may have a smaller cache in front of it, whose lines are always in it too and which
// writes through. Behind it each chip may have an outermost cache: filled with what leaves the
// coherent ones (exclusive), or on the way in; it may include them. Memory lies on the chips: a
// page belongs to the chip that touches it first.
//
// Lines come from the chip's own outermost cache, if it has a copy that is current, else from the
// coherent cache that owns them, else from a cache of the same chip, else from a cache of another,
// else from memory. One directory knows who has what: it stands for snooping
// and costs nothing.
// Caches behind the first are looked up by physical addresses: as the program sees them, or with
// pages at random (MappingConfig::random).
// Not modelled: transient states, contention for links, instruction fetches, TLBs, prefetchers.
// See docs/models/coherence.md.
#pragma once

#include <bit>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/flat_map.h"
#include "base/result.h"
#include "machine/chips.h"
#include "machine/ways.h"

namespace stallscope::machine {

// What happened to one access.
struct Fill {
  Source source;
  std::uint8_t from_chip;  // whose cache or memory it was
  std::uint32_t latency;   // cycles
};

// What went over the links between caches, and what lines were accessed, since the last reset.
struct BusEvents {
  std::uint64_t reads = 0;              // for a line that is missing
  std::uint64_t read_exclusives = 0;    // the same, to write to it
  std::uint64_t write_invalidates = 0;  // writes that took a line away from others
  std::uint64_t updates = 0;            // writes that were sent to others (Dragon)
  std::uint64_t upgrades = 0;           // writes to shared or owned lines, whoever else had them
  std::uint64_t write_backs = 0;        // to memory
  std::uint64_t accesses[kStates]{};    // by the state in which the core's first cache had the line
};

class Coherence {
 public:
  // `values`: lines hold a number each, for tests.
  static Result<std::unique_ptr<Coherence>> make(const MachineConfig& config,
                                                 const ChipsConfig& chips, bool values = false);

  // One access of a core to a line (address >> line_bits()). Inlined where nothing changes.
  Fill access(std::uint32_t core, std::uint64_t line, bool writes) {
    Ways& first = inner_.empty() ? caches_[core] : inner_[core];
    const std::uint64_t word = first.word(first.first_of(line));
    const State state = Ways::state_of(word);
    if (Ways::line_of(word) == line && state != State::invalid &&
        (!writes || state == State::modified)) [[likely]] {
      ++events_.accesses[static_cast<unsigned>(state)];
      return {Source::inner, chip_[core], first_latency_};
    }
    return access_slowly(core, line, writes);
  }

  std::uint32_t line_bits() const { return line_bits_; }
  std::uint32_t line_size() const { return 1u << line_bits_; }
  const ChipsConfig& config() const { return config_; }
  std::uint32_t latency_of(Source source) const { return latency_[static_cast<unsigned>(source)]; }

  Protocol protocol() const { return protocol_; }
  // Between two accesses, when nothing is on its way. No line is lost and none is invalidated:
  // states mean the same in all protocols. To MESI, owned lines are written to memory and become
  // shared ones. How many were.
  std::uint64_t switch_protocol(Protocol to);
  // Whether the outermost caches take new lines in at the end, every 32nd excepted (bimodal
  // insertion), instead of in front (LRU).
  void insert_at_the_end(bool on) { at_the_end_ = on; }
  const BusEvents& events() const { return events_; }
  void reset_events() { events_ = {}; }
  // How often a line of a coherent cache went from one state to another.
  std::uint64_t transitions(State from, State to) const {
    return transitions_[static_cast<unsigned>(from)][static_cast<unsigned>(to)];
  }

  // The chip that the page of an address belongs to, from now on.
  void place_page(std::uint64_t address, std::uint32_t chip);

  // Whether every state is legal in the protocol, and all caches agree: one writer, nobody stale.
  Status check() const;
  State state_of(std::uint32_t core, std::uint64_t line) const;

  // With values: what a core reads and writes. The whole line holds one number.
  std::uint64_t load(std::uint32_t core, std::uint64_t line);
  void store(std::uint32_t core, std::uint64_t line, std::uint64_t value);

 private:
  static constexpr std::uint8_t kNobody = 0xff;
  struct Entry {
    std::uint64_t holders = 0;           // coherent caches
    std::uint64_t outer = 0;             // outermost caches, by chip
    std::uint8_t owner = kNobody;        // whose line is exclusive, owned or modified
    std::uint8_t outer_dirty = kNobody;  // chip whose outermost cache alone has it as it is now
    std::uint8_t home = 0;
  };
  struct Got {
    Fill fill;
    State state;
    std::uint64_t value;
  };

  Coherence(const ChipsConfig& chips, const ChipsPlan& plan, bool scattered, bool values);
  std::uint64_t bit(std::uint32_t agent) const { return std::uint64_t{1} << agent; }
  std::uint32_t agent_of(std::uint32_t core) const { return agent_[core]; }
  std::uint8_t chip_of_agent(std::uint32_t agent) const { return agent_chip_[agent]; }
  bool updates() const {
    return protocol_ == Protocol::dragon || protocol_ == Protocol::dragon_owned;
  }
  Fill fill(Source source, std::uint32_t chip) const {
    return {source, static_cast<std::uint8_t>(chip), latency_of(source)};
  }

  Fill access_slowly(std::uint32_t core, std::uint64_t line, bool writes);
  Fill hit(std::uint32_t core, std::uint64_t line, std::size_t at, bool writes);
  Fill miss(std::uint32_t core, std::uint64_t line, bool writes);
  // Others hear of a write by `agent`, which has the line or is about to get it: the state that it
  // has afterwards, and the farthest that heard.
  State announce(std::uint32_t agent, std::uint64_t line, Entry& entry, Fill* farthest);
  State invalidate_others(std::uint32_t agent, std::uint64_t line, Entry& entry);
  State update_others(std::uint32_t agent, std::uint64_t line, Entry& entry);
  void drop_outer(std::uint64_t line, Entry& entry, std::uint64_t chips);
  Got get(std::uint32_t agent, std::uint64_t line, Entry& entry);
  State owner_state(std::uint64_t line, const Entry& entry) const;
  Got get_from_owner(std::uint32_t agent, std::uint64_t line, Entry& entry);
  Got get_from_outer(std::uint32_t agent, std::uint32_t chip, std::uint64_t line, Entry& entry);
  Got get_from_sharer(std::uint32_t agent, std::uint64_t line, Entry& entry, std::uint64_t among);
  Got get_from_memory(std::uint32_t agent, std::uint64_t line, Entry& entry);
  void bring_in(std::uint32_t agent, std::uint64_t line, const Got& got);
  void fill_outer(std::uint32_t chip, std::uint64_t line, std::uint64_t value, bool dirty);
  void leave(std::uint32_t agent, const Ways::Left& left);
  void leave_outer(std::uint32_t chip, const Ways::Left& left);
  void show_inside(std::uint32_t core, std::uint64_t line, State state, bool writes);
  void restate(std::uint32_t agent, std::uint64_t line, State to);
  void remove(std::uint32_t agent, std::uint64_t line);
  void count(State from, State to) {
    if (from != to) ++transitions_[static_cast<unsigned>(from)][static_cast<unsigned>(to)];
  }
  void write_back(std::uint64_t line, std::uint64_t value);
  std::uint64_t value_of(std::uint32_t agent, std::uint64_t line) const;
  Entry& entry_of(std::uint64_t line, std::uint32_t chip);
  Status check_line(std::uint64_t line, const Entry& entry) const;
  Status check_inner() const;
  template <typename Visit>
  void each_agent(std::uint64_t mask, Visit&& visit) const {
    for (; mask; mask &= mask - 1) visit(static_cast<std::uint32_t>(std::countr_zero(mask)));
  }

  ChipsConfig config_;
  Protocol protocol_;
  std::uint32_t line_bits_ = 6, page_bits_ = 12;
  std::uint32_t latency_[kSources]{};
  std::uint32_t first_latency_ = 0;
  bool values_ = false;
  bool inner_allocates_ = true;  // on writes
  bool outer_exclusive_ = false, outer_inclusive_ = false;
  bool at_the_end_ = false;
  std::uint32_t inserted_ = 0;  // at the end
  std::uint32_t cores_per_agent_ = 1;
  std::vector<std::uint8_t> chip_, agent_, agent_chip_;  // by core, by core, by agent
  std::vector<std::uint64_t> agents_of_chip_;            // masks
  std::vector<Ways> inner_;   // by core; empty: the coherent one is first
  std::vector<Ways> caches_;  // coherent ones, by agent
  std::vector<Ways> outer_;   // by chip; may be empty
  FlatMap<Entry> directory_;
  FlatMap<std::uint8_t> pages_;    // chip that a page belongs to
  FlatMap<std::uint64_t> memory_;  // values
  std::uint64_t writing_ = 0;      // value on its way, in tests
  BusEvents events_;
  std::uint64_t transitions_[kStates][kStates]{};
};

}  // namespace stallscope::machine
