// SPDX-License-Identifier: Apache-2.0
// One simulated machine driven by a stream, with the probe that attributes its misses: a sink of
// the stream, while it is recorded and when it is read again.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "machine/machine.h"
#include "probes/buckets.h"
#include "probes/misses.h"
#include "probes/sampler.h"
#include "stallscope_records.h"
#include "stallscope_tables.h"
#include "stream/code_table.h"

namespace stallscope::session {

struct SimulationOptions {
  bool evictions = false;
  std::int32_t event = -1;        // level whose misses are sampled: -1 for the first data cache
  std::uint64_t period = 0;       // 0: chosen by the run
  std::uint64_t wanted = 20'000;  // samples at least, if there are as many events
  std::uint64_t seed = 1;
};

struct SimulationTables {
  LevelTable level;
  BucketTable bucket;
  MissTable miss;
  EvictionTable eviction;
  SampleTable sample;
  std::uint64_t sample_period = 0;
  std::uint64_t sample_events = 0;
  std::uint32_t sample_level = 0;
};

class Simulation {
 public:
  // `code` is the table of the parse that feeds this, and outlives it.
  static Result<std::unique_ptr<Simulation>> make(const machine::MachineConfig& config,
                                                  const stream::CodeTable& code,
                                                  const SimulationOptions& options);

  void on_block(std::uint32_t exit, const stream::Exit& info, const std::uint64_t* addresses);
  Status on_record(unsigned tag, const std::uint64_t* words, std::uint32_t count);

  probes::Buckets& buckets() { return buckets_; }
  std::uint64_t instructions() const { return instructions_; }
  std::uint64_t accesses() const { return accesses_; }
  SimulationTables tables() const;

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
    std::uint32_t operation = 0;
    std::uint32_t missed = 0;
    struct Victim {
      std::uint32_t level;
      std::uint64_t line;
    };
    std::vector<Victim> victims;

    void on_miss(const machine::Miss& miss);
    void on_translation_miss(const machine::TranslationMiss& miss);
    void on_access_done(const machine::Served& served);
    void sample(const machine::Served& served, probes::BucketId bucket);
    probes::BucketId bucket_of(const Victim& victim);
  };
  struct Lines {
    std::uint32_t first = 0;  // index into lines_
    std::uint32_t count = 0;
  };
  void learn_exits();  // the lines of code of exits that are new
  void fetch(std::uint32_t exit);
  void memory(unsigned tag, const std::uint64_t* words, std::uint32_t count);

  machine::MachineConfig config_;
  std::unique_ptr<machine::Machine> machine_;
  const stream::CodeTable& code_;
  probes::Buckets buckets_;
  probes::Misses misses_;
  Probe probe_;
  machine::NullProbe code_probe_;
  std::uint64_t code_line_;           // bytes; 0 when no cache holds instructions
  std::vector<Lines> lines_of_;       // by exit
  std::vector<std::uint64_t> lines_;  // addresses of lines of code
  std::uint64_t last_line_ = ~0ULL;   // fetched last
  std::uint64_t instructions_ = 0;
  std::uint64_t accesses_ = 0;
};

}  // namespace stallscope::session
