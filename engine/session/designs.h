// SPDX-License-Identifier: Apache-2.0
// Many machines in one pass over a trace: what each of their caches and TLBs would have counted.
//
// Levels that see the same accesses and have the same sets and lines are one group of LRU stacks,
// whatever their ways; a level that a group's misses lead to sees those of one number of ways.
// Machines that begin alike so share what they have in common, and the first levels, which see
// every access, are looked up once. Levels with many different numbers of sets, but few ways each,
// are one set of residents instead (stack/residents.h), where hits cost nothing more.
//
// Exact, and equal to a replay of each, for machines whose caches are all LRU, allocate on writes,
// write back, neither include nor exclude each other, prefetch nothing and use addresses as they
// are: then what a level holds depends on the order of the accesses to it and on nothing else.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "machine/access.h"
#include "machine/config.h"
#include "session/code_lines.h"
#include "stack/residents.h"
#include "stack/set_stacks.h"
#include "stream/code_table.h"

namespace stallscope::session {

struct LevelCounts {
  std::uint64_t accesses = 0, misses = 0, evictions = 0;
};

struct DesignsResult {
  std::uint64_t instructions = 0;
  std::uint64_t accesses = 0;
  std::vector<std::vector<LevelCounts>> machines;  // caches, then TLBs, as they were given
};

// A sink of the stream.
class Designs {
 public:
  // `code` is the table of the parse that feeds this, and outlives it. An error where a machine is
  // none of those above, or where machines fetch lines of code of different lengths.
  static Result<std::unique_ptr<Designs>> make(const std::vector<machine::MachineConfig>& machines,
                                               const stream::CodeTable& code);

  void on_block(std::uint32_t exit, const stream::Exit& info, const std::uint64_t* addresses);
  Status on_record(unsigned tag, const std::uint64_t* words, std::uint32_t count);
  Result<DesignsResult> result() const;

 private:
  // Prefetches go the way of data and are counted apart.
  enum Port : unsigned { kData, kFetch, kPorts, kPrefetch = kPorts, kCounted };
  static Port way_of(Port port) { return port == kPrefetch ? kData : port; }
  struct Stage;
  struct Group;
  struct Bundle;

  // Caches of one group that have the same ways.
  struct Variant {
    Group* group = nullptr;
    std::uint32_t ways = 0;
    std::vector<Stage*> next[kPorts];  // what looks up what it misses
    const Bundle* bundle = nullptr;    // that it belongs to, else its group has stacks
    unsigned number = 0;               // there
  };
  // Caches that see the same accesses and have the same lines and sets.
  struct Group {
    std::uint32_t bits = 0;  // of an address below the line number
    std::uint64_t sets = 0;
    std::vector<std::unique_ptr<Variant>> variants;
    std::vector<Variant*> heard[kPorts];  // those whose misses go on, fewest ways first
    std::unique_ptr<stack::SetStacks> stacks;
    std::vector<std::uint64_t>
        missed[kCounted];                // accesses, by the ways that miss: so many or fewer
    std::vector<std::uint64_t> evicted;  // lines, the same
  };
  // Caches that see the same accesses and have the same lines, of groups with few variants.
  struct Bundle {
    std::uint32_t bits;
    std::vector<Variant*> variants;
    std::vector<std::uint64_t> missed[kCounted];  // by variant
    std::unique_ptr<stack::Residents> residents;
    // The one level that each variant's misses go to, where it is one cache: by the same numbers.
    std::unique_ptr<Bundle> behind;
    std::uint64_t go_there[kPorts] = {0, 0};  // variants
  };
  static constexpr std::size_t kFew = 2;    // variants of such a group
  static constexpr std::size_t kWorth = 4;  // groups that make a bundle
  // Where accesses come from: a port of the machine, or the misses of a variant.
  struct Source {
    bool given = false;
    Variant* misses_of = nullptr;  // nullptr: every access
    bool operator==(const Source&) const = default;
  };
  // Everything that sees the same accesses. In a chain the sets of each group divide those of the
  // next: what is on top of its stack in one is so in all that follow.
  struct Stage {
    bool translates;  // its lines are pages
    Source sources[kPorts];
    std::vector<std::unique_ptr<Group>> groups;
    std::vector<std::vector<Group*>> chains;
    std::vector<std::unique_ptr<Bundle>> bundles;
    Group* leaf = nullptr;  // the only one, and nothing hears of its misses
  };
  // What the hot path looks at: the first group of a chain of a stage that sees every access.
  struct Gate {
    const std::uint64_t* tops;
    std::uint64_t mask;
    std::uint32_t bits;
    bool closed(std::uint64_t line) const { return tops[line & mask] == line; }
  };

  Designs(const stream::CodeTable& code, std::uint64_t code_line)
      : code_(code), code_lines_(code, code_line) {}

  void add(const machine::MachineConfig& machine);
  Variant* add_level(bool translates, machine::Holds holds, std::uint32_t bits, std::uint64_t sets,
                     std::uint32_t ways, Source (&sources)[kPorts]);
  Stage& stage_of(bool translates, const Source& data, const Source& fetch);
  void ready();
  void open_gates();
  static void bundle(Stage& stage);
  static void bundle_behind(Bundle& bundle);
  static bool only_behind(const Stage& stage, const Variant& variant);
  static void give_residents(Bundle& bundle);
  static void give_stacks(Group& group);
  static void link(Stage& stage);
  static void look_up(Stage& stage, Port port, std::uint64_t first, std::uint64_t last);
  static void look_up_all(Stage& stage, Port port, std::uint64_t first, std::uint64_t last);
  static void look_up(Bundle& bundle, Port port, std::uint64_t first, std::uint64_t last);
  static void look_up(Bundle& bundle, Port port, std::uint64_t first, std::uint64_t last,
                      std::uint64_t by);
  static void tell_missed(Bundle& bundle, Port port, std::uint64_t first, std::uint64_t last,
                          std::uint64_t missed);
  static std::uint32_t touch(Group& group, std::uint64_t first, std::uint64_t last);
  bool settled(Port port, std::uint64_t first, std::uint64_t last) const;
  void access(Port port, std::uint64_t first, std::uint64_t last);
  LevelCounts counts_of(const Variant& variant, bool translates, machine::Holds holds) const;
  static std::uint64_t missed_by(const Variant& variant, Port port);
  static std::uint64_t evicted_by(const Variant& variant);
  void learn_steps();

  const stream::CodeTable& code_;
  CodeLines code_lines_;
  std::vector<std::unique_ptr<Stage>> stages_;
  std::vector<Stage*> roots_[kPorts];
  std::vector<Gate> gates_[kPorts];
  bool gated_[kPorts] = {true, true};  // gates know of all that sees every access
  struct Member {
    const Variant* variant;
    bool translates;
    machine::Holds holds;
  };
  std::vector<std::vector<Member>> machines_;
  static constexpr std::uint32_t kPrefetched = ~0u;
  std::vector<std::uint32_t> less_one_;  // bytes of each operation, less one; or kPrefetched
  std::uint64_t last_line_ = ~0ULL;      // of code, fetched last
  std::uint64_t instructions_ = 0, accesses_ = 0, absent_ = 0, fetched_ = 0;
};

// A kept trace through many machines at once.
Result<DesignsResult> replay_designs(const std::string& path,
                                     const std::vector<machine::MachineConfig>& machines);

}  // namespace stallscope::session
