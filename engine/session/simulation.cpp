// SPDX-License-Identifier: Apache-2.0
#include "session/simulation.h"

#include <bit>

#include "stream/record.h"

namespace stallscope::session {
namespace {

std::uint64_t line_of_code(const machine::MachineConfig& config) {
  for (const machine::CacheConfig& cache : config.caches)
    if (machine::on_fetch_path(cache.holds)) return cache.line;
  return 0;
}

unsigned first_data_cache(const machine::MachineConfig& config) {
  for (unsigned i = 0; i < config.caches.size(); ++i)
    if (machine::on_data_path(config.caches[i].holds)) return i;
  return 0;
}

std::vector<std::uint32_t> line_sizes_of(const machine::MachineConfig& config) {
  std::vector<std::uint32_t> sizes;
  for (const machine::CacheConfig& cache : config.caches) sizes.push_back(cache.line);
  return sizes;
}

const char* holds_name(machine::Holds holds) {
  return holds == machine::Holds::data   ? "data"
         : holds == machine::Holds::both ? "both"
                                         : "instructions";
}

constexpr machine::AccessKind kKindOf[] = {machine::AccessKind::load, machine::AccessKind::store,
                                           machine::AccessKind::modify};

}  // namespace

void Simulation::Probe::on_miss(const machine::Miss& miss) {
  if (miss.counted && miss.cause == machine::Cause::demand) missed |= 1u << miss.level;
  if (miss.victim != machine::kNoVictim) victims.push_back({miss.level, miss.victim});
}

void Simulation::Probe::on_translation_miss(const machine::TranslationMiss& miss) {
  if (miss.counted) missed |= 1u << (caches + miss.tlb);
}

void Simulation::Probe::on_access_done(const machine::Served& served) {
  const probes::BucketId bucket = misses.bucket_of(served.address);
  misses.miss(bucket, operation, missed);
  const std::uint32_t of_caches = missed & ((1u << caches) - 1);
  if (of_caches)
    misses.wait(bucket, operation, std::bit_width(of_caches) - 1,
                served.latency - served.translation);
  if (const std::uint32_t of_tlbs = missed >> caches; of_tlbs)
    misses.wait(bucket, operation, caches + std::bit_width(of_tlbs) - 1, served.translation);
  if (missed >> event & 1 && sampler.count()) sample(served, bucket);
  if (evictions)
    for (const Victim& victim : victims)
      misses.evict(victim.level, bucket_of(victim), bucket, operation);
  victims.clear();
  missed = 0;
}

// Lines are at most a page long, and lie within one.
probes::BucketId Simulation::Probe::bucket_of(const Victim& victim) {
  return misses.bucket_of_line(victim.line, line_sizes[victim.level]);
}

// What the handler reads: the miss, and the address of the evicted line, which no real PMU has.
void Simulation::Probe::sample(const machine::Served& served, probes::BucketId bucket) {
  probes::BucketId thrown_out = probes::kNoBucket;
  for (const Victim& victim : victims)
    if (victim.level == event) thrown_out = bucket_of(victim);
  sampler.take({bucket, thrown_out, operation, served.latency});
}

Result<std::unique_ptr<Simulation>> Simulation::make(const machine::MachineConfig& config,
                                                     const stream::CodeTable& code,
                                                     const SimulationOptions& options) {
  if (config.caches.size() + config.tlbs.size() > probes::kMaxLevels)
    return Error{"the machine has more caches and TLBs than can be told apart", "", ""};
  auto made = machine::make_machine(config);
  if (!made) return made.error();
  return std::unique_ptr<Simulation>(new Simulation(config, std::move(*made), code, options));
}

Simulation::Simulation(const machine::MachineConfig& config,
                       std::unique_ptr<machine::Machine> machine, const stream::CodeTable& code,
                       const SimulationOptions& options)
    : config_(config),
      machine_(std::move(machine)),
      code_(code),
      misses_(buckets_, static_cast<unsigned>(config.caches.size() + config.tlbs.size()),
              options.evictions),
      probe_{misses_,
             probes::Sampler(options.period, options.wanted, options.seed),
             options.event < 0 ? first_data_cache(config) : static_cast<unsigned>(options.event),
             static_cast<unsigned>(config.caches.size()),
             options.evictions,
             line_sizes_of(config),
             0,
             0,
             0,
             {},
             {}},
      code_line_(line_of_code(config)) {}

void Simulation::learn_exits() {
  for (std::size_t i = steps_.size(); i < code_.operations.size(); ++i) {
    const stream::Operation& operation = code_.operations[i];
    steps_.push_back(machine::Step::of(kKindOf[operation.kind], operation.size));
  }
  for (std::size_t exit = prepared_.size(); exit < code_.exits.size(); ++exit)
    prepared_.push_back(prepare(code_.exits[exit]));
}

Simulation::Prepared Simulation::prepare(const stream::Exit& exit) {
  Prepared prepared;
  if (code_line_ == 0) return prepared;
  const auto first = lines_.size();
  const stream::Block& block = code_.blocks[exit.block];
  for (std::uint32_t i = 0; i < exit.instructions; ++i) {
    const stream::Instruction& one = code_.instructions[block.first_instruction + i];
    const std::uint64_t end = one.address + (one.length ? one.length : 1);
    for (std::uint64_t line = one.address / code_line_ * code_line_; line < end; line += code_line_)
      if (lines_.size() == first || line != lines_.back()) lines_.push_back(line);
  }
  prepared.lines = static_cast<std::uint32_t>(lines_.size() - first);
  prepared.first_line = static_cast<std::uint32_t>(first);
  if (prepared.lines > 0) prepared.line = lines_[first];
  return prepared;
}

void Simulation::fetch(const Prepared& prepared) {
  for (std::uint32_t i = 0; i < prepared.lines; ++i) {
    const std::uint64_t line = lines_[prepared.first_line + i];
    if (line == last_line_) continue;  // the most recent line: nothing would change
    last_line_ = line;
    machine_->fetch(line, 1, code_probe_);
  }
}

std::uint64_t Simulation::instructions() const {
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < prepared_.size(); ++i)
    sum += prepared_[i].executions * code_.exits[i].instructions;
  return sum;
}

std::uint64_t Simulation::accesses() const {
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < prepared_.size(); ++i)
    sum += prepared_[i].executions * code_.exits[i].operations;
  return sum;
}

void Simulation::count_accesses(std::uint64_t (&by_kind)[machine::kKinds]) const {
  for (std::size_t i = 0; i < prepared_.size(); ++i)
    for (std::uint32_t k = 0; k < code_.exits[i].operations; ++k)
      by_kind[static_cast<unsigned>(steps_[code_.exits[i].first_operation + k].kind)] +=
          prepared_[i].executions;
  for (std::uint32_t kind = 0; kind < machine::kKinds; ++kind) by_kind[kind] -= probe_.absent[kind];
}

void Simulation::memory(unsigned tag, const std::uint64_t* words, std::uint32_t count) {
  if (tag == SS_ALLOC) {
    const auto& record = *reinterpret_cast<const ss_alloc*>(words);
    if (record.address)
      buckets_.allocate(record.address, record.size, static_cast<std::uint32_t>(record.site));
  } else if (tag == SS_FREE) {
    buckets_.release(reinterpret_cast<const ss_free*>(words)->address);
  } else if (tag == SS_UNMAP) {
    const auto& record = *reinterpret_cast<const ss_unmap*>(words);
    buckets_.unmap(record.address, record.length);
  } else if (tag == SS_NAME_BLOCK) {
    if (auto record = stream::view<ss_name_block>(words, count); record)
      buckets_.name("named", record->tail, "", record->fields->address, record->fields->size);
  }
}

Status Simulation::on_record(unsigned tag, const std::uint64_t* words, std::uint32_t count) {
  memory(tag, words, count);
  return Done{};
}

SimulationTables Simulation::tables() const {
  SimulationTables tables;
  bool counted_fetches = false, counted_data = false, counted_pages = false;
  std::uint64_t accesses[machine::kKinds]{};
  count_accesses(accesses);
  std::uint8_t number = 0;
  for (std::size_t i = 0; i < config_.caches.size(); ++i, ++number) {
    const machine::CacheConfig& cache = config_.caches[i];
    machine::Counters counters = machine_->cache_counters(static_cast<std::uint32_t>(i));
    // Every instruction is an access; only those to another line than the last were simulated.
    if (!counted_fetches && machine::on_fetch_path(cache.holds)) {
      counters.accesses[static_cast<int>(machine::AccessKind::fetch)] = instructions();
      counted_fetches = true;
    }
    if (!counted_data && machine::on_data_path(cache.holds)) {
      counters.add(accesses);
      counted_data = true;
    }
    tables.level.append({number, cache.name, "cache", holds_name(cache.holds), counters.accessed(),
                         counters.missed(), counters.evictions, cache.latency});
  }
  for (std::size_t i = 0; i < config_.tlbs.size(); ++i, ++number) {
    const machine::TlbConfig& tlb = config_.tlbs[i];
    machine::Counters counters = machine_->tlb_counters(static_cast<std::uint32_t>(i));
    if (!counted_pages && machine::on_data_path(tlb.holds)) {
      counters.add(accesses);
      counted_pages = true;
    }
    tables.level.append({number, tlb.name, "tlb", holds_name(tlb.holds), counters.accessed(),
                         counters.missed(), counters.evictions, tlb.latency});
  }
  buckets_.fill(tables.bucket);
  misses_.fill(tables.miss);
  misses_.fill(tables.eviction);
  for (const probes::Sample& sample : probe_.sampler.samples())
    tables.sample.append({sample.bucket, sample.victim, sample.operation, sample.latency});
  tables.sample_period = probe_.sampler.period();
  tables.sample_events = probe_.sampler.events();
  tables.sample_level = probe_.event;
  return tables;
}

}  // namespace stallscope::session
