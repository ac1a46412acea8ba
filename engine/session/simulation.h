// SPDX-License-Identifier: Apache-2.0
// One simulated machine driven by a stream, with the probe that attributes its misses: a sink of
// the stream, while it is recorded and when it is read again.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "machine/machine.h"
#include "probes/buckets.h"
#include "probes/classify.h"
#include "probes/frames.h"
#include "probes/misses.h"
#include "probes/offsets.h"
#include "probes/regions.h"
#include "probes/residency.h"
#include "probes/sampler.h"
#include "session/code_lines.h"
#include "session/elements.h"
#include "session/quick.h"
#include "stallscope_records.h"
#include "stallscope_tables.h"
#include "stream/code_table.h"

namespace stallscope::session {

struct SimulationOptions {
  bool evictions = false;         // who throws out whom, and how much stays
  bool classify = false;          // why each miss happened
  bool offsets = false;           // where inside of blocks misses fall
  bool frames = false;            // stacks are told apart by function
  std::int32_t event = -1;        // level whose misses are sampled: -1 for the first data cache
  bool event_code = false;        // its misses by instruction fetches, not those by data accesses
  std::uint64_t period = 0;       // 0: chosen by the run
  std::uint64_t wanted = 20'000;  // samples at least, if there are as many events
  std::uint64_t seed = 1;
  std::uint32_t min_latency = 0;   // cycles; faster accesses are neither counted nor sampled
  bool tagged = false;             // follow one load at a time instead of counting every event
  std::uint64_t handler_cost = 0;  // cycles of each interrupt
  bool perturb = false;            // the handler's own accesses go through the caches
  bool alone = false;              // on one thread: others use the other processors
  double budget = 0;  // share of the run's cycles that the handler may take; 0 for no budget

  bool need_pmu() const {
    return handler_cost > 0 || perturb || budget > 0 || tagged || event_code;
  }
  // Every access must be looked at.
  bool watch_all() const {
    return evictions || classify || offsets || frames || min_latency > 0 || need_pmu();
  }
};

struct SimulationTables {
  LevelTable level;
  BucketTable bucket;
  MissTable miss;
  EvictionTable eviction;
  CodeMissTable code_miss;
  SampleTable sample;
  RegionTable region;
  RegionLevelTable region_level;
  MissClassTable miss_class;
  ResidentTable resident;
  OffsetTable offset;
  FoldTable fold;
  bool has_offsets = false;
  std::uint64_t sample_period = 0;
  std::uint64_t sample_events = 0;
  std::uint32_t sample_level = 0;
  // What is known only where the options need it (see pmu.h); 0 otherwise.
  bool sample_code = false;
  std::uint64_t interrupts = 0;
  std::uint64_t program_cycles = 0;
  std::uint64_t handler_cycles = 0;
  std::uint64_t loads = 0;
  std::uint64_t tags = 0;
};

struct Pmu;

class Simulation {
 public:
  // `code` is the table of the parse that feeds this, and outlives it.
  static Result<std::unique_ptr<Simulation>> make(const machine::MachineConfig& config,
                                                  const stream::CodeTable& code,
                                                  const SimulationOptions& options);
  ~Simulation();

  void on_block(std::uint32_t exit, const stream::Exit& info, const std::uint64_t* addresses) {
    if (exit >= quick_exits_) [[unlikely]] {
      if (!quick_) return on_block_watched(exit, info, addresses);
      learn_exits();
    }
    quick_->on_block(exit, addresses);
  }
  // Blocks in a row, counted in `taken` by exit (which has room for all of the code table); the
  // words that were taken, see Quick::on_blocks.
  std::size_t on_blocks(std::span<const std::uint64_t> words, std::uint64_t* taken) {
    return quick_ ? quick_->on_blocks(words, taken) : 0;
  }
  Status on_record(unsigned tag, const std::uint64_t* words, std::uint32_t count);
  // What a filter for such a simulation, which capture may do, has to know; nothing where every
  // access is wanted.
  static std::optional<machine::Gates> gates_of(const machine::MachineConfig& config,
                                                const SimulationOptions& options);

  // To change them: what was accessed before counts as what it was.
  probes::Buckets& buckets() {
    catch_up();
    return buckets_;
  }
  // What tells the elements of arrays, before the first block; without it there are only granules.
  void attach_elements(std::unique_ptr<Elements> elements);
  std::uint64_t instructions() const { return quick_ ? quick_->instructions() : instructions_; }
  std::uint64_t accesses() const { return quick_ ? quick_->accesses() : accesses_; }
  SimulationTables tables();

 private:
  Simulation(const machine::MachineConfig& config, std::unique_ptr<machine::Machine> machine,
             const stream::CodeTable& code, const SimulationOptions& options);

  // Collects what one access does, then attributes it.
  struct Probe {
    probes::Misses& misses;
    probes::Sampler sampler;
    unsigned event;   // level whose misses the sampler counts
    unsigned caches;  // TLBs are numbered behind them
    bool evictions;
    std::vector<std::uint32_t> line_sizes;  // by cache
    std::uint32_t min_latency = 0;          // cycles
    std::uint32_t first_operation = 0;      // of the block that runs
    std::uint32_t operation = 0;
    std::uint32_t missed = 0;
    struct Victim {
      std::uint32_t level;
      std::uint64_t line;
    };
    std::vector<Victim> victims;
    probes::Offsets* offsets = nullptr;

    std::uint64_t absent[machine::kKinds]{};  // that did not happen, and prefetches
    bool listening = true;                    // an event of this access counts
    bool interrupted = false;                 // a sample was taken
    std::uint32_t latency = 0;                // of the last access that missed something
    std::uint64_t waited = 0;                 // cycles, by all accesses so far

    void at(std::uint32_t index) { operation = first_operation + index; }
    void on_absent(machine::AccessKind kind) { ++absent[static_cast<unsigned>(kind)]; }
    void on_miss(const machine::Miss& miss);
    void on_translation_miss(const machine::TranslationMiss& miss);
    void on_access_done(const machine::Served& served);
    void on_prefetched(const machine::Served& served);
    void sample(const machine::Served& served, probes::BucketId bucket);
    probes::BucketId bucket_of(const Victim& victim);
  };
  // For probes that look at fetches too, or at every access: tells them what it tells the first.
  template <typename First>
  struct Watch {
    First& first;
    probes::Classify* classify;
    probes::Residency* residency;

    void at(std::uint32_t index) { first.at(index); }
    void on_absent(machine::AccessKind kind) { first.on_absent(kind); }
    void on_miss(const machine::Miss& miss) {
      first.on_miss(miss);
      if (classify) classify->on_miss(miss);
      if (residency) residency->on_miss(miss);
    }
    void on_translation_miss(const machine::TranslationMiss& miss) {
      first.on_translation_miss(miss);
      if (classify) classify->on_translation_miss(miss);
    }
    void on_access_done(const machine::Served& served) { first.on_access_done(served); }
  };
  static constexpr std::uint64_t kNoLine = ~0ULL;

  void learn_exits();  // that are new
  // Before stat buckets change and before counters are read.
  void catch_up() {
    if (quick_) quick_->run();
  }
  // The other way than the quick one: access by access, for machines and for probes that need it.
  void attach(const SimulationOptions& options);  // what the PMU needs
  void on_block_watched(std::uint32_t exit, const stream::Exit& info,
                        const std::uint64_t* addresses);
  void fetch_watched(std::uint32_t exit, const stream::Exit& info);
  void data_watched(const stream::Exit& info, const std::uint64_t* addresses);
  // Around one access: what probes that look at every access have to know.
  void before_access(std::uint32_t operation);
  void after_access(std::uint32_t operation, std::uint64_t address);
  void fetch_sampled(std::uint64_t line, const stream::Exit& info);
  void data_sampled(const stream::Exit& info, const std::uint64_t* addresses);
  void interrupt();
  void disturb();
  // A level's counters without what the sampling handler did.
  machine::Counters counted(machine::Counters counters, std::uint32_t level) const;
  void memory(unsigned tag, const std::uint64_t* words, std::uint32_t count);
  void change(Quick::Change change, std::uint64_t address, std::uint64_t size = 0,
              std::uint32_t site = 0);
  void mark(unsigned tag, const std::uint64_t* words, std::uint32_t count);
  void enter(std::uint32_t region);
  // What the levels did so far.
  probes::Regions::Done done() const;
  void fill_levels(const probes::Regions::Done& all, LevelTable& table) const;
  void fill_samples(SimulationTables& tables) const;
  void fill_pmu(SimulationTables& tables) const;
  void fill_code(SimulationTables& tables) const;

  machine::MachineConfig config_;
  std::unique_ptr<machine::Machine> machine_;
  const stream::CodeTable& code_;
  probes::Buckets buckets_;
  probes::Misses misses_;
  Probe probe_;
  machine::NullProbe code_probe_;
  std::unique_ptr<probes::Offsets> offsets_;
  std::unique_ptr<Elements> elements_;
  std::unique_ptr<probes::Classify> classify_;
  std::unique_ptr<probes::Residency> residency_;
  std::unique_ptr<probes::Frames> frames_;
  std::vector<probes::Frames::Step> stack_steps_;  // by operation
  std::unique_ptr<Pmu> pmu_;                       // nullptr unless the options need it
  probes::Regions regions_;
  std::uint32_t region_ = 0;
  std::uint64_t instructions_ = 0;  // so far, where no quick way is taken
  std::uint64_t accesses_ = 0;
  std::size_t quick_exits_ = 0;  // exits that take the quick way: all that are known, or none
  std::uint64_t code_line_;      // bytes; 0 when no cache holds instructions
  CodeLines code_lines_;
  std::vector<machine::Step> steps_;   // by operation
  std::unique_ptr<Quick> quick_;       // nullptr where every access must be watched
  std::uint64_t last_line_ = kNoLine;  // of code, fetched last
};

}  // namespace stallscope::session
