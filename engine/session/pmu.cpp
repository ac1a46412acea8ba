// SPDX-License-Identifier: Apache-2.0
#include "session/pmu.h"

#include <bit>

#include "session/simulation.h"

namespace stallscope::session {
namespace {

// The first instruction of an exit that has bytes in a line of code, as an index into the table's.
std::uint32_t instruction_in(const stream::CodeTable& code, const stream::Exit& exit,
                             std::uint64_t line, std::uint64_t line_bytes) {
  const std::uint32_t first = code.blocks[exit.block].first_instruction;
  for (std::uint32_t i = first; i < first + exit.instructions; ++i) {
    const stream::Instruction& one = code.instructions[i];
    if (one.address < line + line_bytes && one.address + one.length > line) return i;
  }
  return first;
}

bool follows(const stream::Instruction& before, const stream::Instruction& after) {
  return before.address + before.length == after.address;
}

}  // namespace

void CodeProbe::on_miss(const machine::Miss& miss) {
  if (miss.counted && miss.cause == machine::Cause::demand) missed |= 1u << miss.level;
  if (miss.level == event && miss.victim != machine::kNoVictim) victim = miss.victim;
}

void CodeProbe::on_translation_miss(const machine::TranslationMiss& miss) {
  if (miss.counted) missed |= 1u << (caches + miss.tlb);
}

void CodeProbe::on_access_done(const machine::Served& served) {
  waited += missed & ((1u << caches) - 1) ? served.latency : served.translation;
  if (sampler && served.latency >= min_latency) count(served);
  missed = 0;
  victim = machine::kNoVictim;
}

void CodeProbe::count(const machine::Served& served) {
  const std::uint32_t at = instruction_in(code, exit, served.address, code_line);
  misses.add(exit.block, at, missed, served.latency - served.translation, served.translation);
  if (!(missed >> event & 1) || !sampler->count()) return;
  const probes::BucketId thrown_out =
      victim == machine::kNoVictim ? probes::kNoBucket : data.bucket_of_line(victim, event_line);
  sampler->take({.bucket = probes::kNoBucket,
                 .victim = thrown_out,
                 .operation = at,
                 .latency = served.latency,
                 .address = code.instructions[at].address,
                 .block = exit.block,
                 .served = probes::served_by(served.level, caches)});
  interrupted = true;
}

CodePlaces::CodePlaces(const stream::CodeTable& code) : code_(code) {
  for (std::uint32_t i = 0; i < code.blocks.size(); ++i) by_address_[code.blocks[i].address] = i;
}

CodePlace CodePlaces::find(std::uint32_t block, std::uint32_t instruction) const {
  const stream::Block& b = code_.blocks[block];
  const auto& at = code_.instructions;
  std::uint32_t first = instruction, last = instruction;
  while (first > b.first_instruction && follows(at[first - 1], at[first])) --first;
  while (last + 1 < b.first_instruction + b.instructions && follows(at[last], at[last + 1])) ++last;
  CodePlace place{block, kNone32};
  std::uint32_t distance = ~0u;
  for (std::uint32_t i = b.first_operation; i < b.first_operation + b.operations; ++i) {
    const std::uint32_t where = b.first_instruction + code_.operations[i].instruction;
    if (where < first || where > last) continue;
    const std::uint32_t apart = where < instruction ? instruction - where : where - instruction;
    if (apart >= distance) continue;
    distance = apart;
    place.operation = i;
  }
  if (const auto found = by_address_.find(at[first].address);
      first > b.first_instruction && found != by_address_.end())
    place.block = found->second;
  return place;
}

Disturbance Pmu::disturbance(std::uint32_t level, std::uint64_t misses) const {
  if (!untouched) return {0, misses};
  const auto caches = static_cast<std::uint32_t>(untouched->config().caches.size());
  const machine::Counters alone =
      level < caches ? untouched->cache_counters(level) : untouched->tlb_counters(level - caches);
  return {by_handler[level].missed(), alone.missed()};
}

void Simulation::attach(const SimulationOptions& options) {
  if (!options.need_pmu()) return;
  probe_.listening = !options.event_code;
  const auto levels = static_cast<unsigned>(config_.caches.size() + config_.tlbs.size());
  const bool of_cache = probe_.event < probe_.caches;
  pmu_.reset(
      new Pmu{CodeProbe{code_, probes::Misses(buckets_, probe_.caches, levels - probe_.caches),
                        misses_, options.event_code ? &probe_.sampler : nullptr,
                        of_cache ? probe_.line_sizes[probe_.event] : 0, probe_.event, probe_.caches,
                        options.min_latency, code_line_}});
  pmu_->handler_cost = options.handler_cost;
  for (const machine::CacheConfig& cache : config_.caches)
    if (machine::on_data_path(cache.holds)) {
      pmu_->hit_latency = cache.latency;
      break;
    }
  if (options.tagged) pmu_->tags.emplace(options.seed + 1);
  if (options.budget > 0) {
    pmu_->budget.emplace(options.budget);
    probe_.sampler.set_period(probes::Budget::kFirstPeriod);
  }
  if (!options.perturb) return;
  pmu_->handler.emplace();
  pmu_->by_handler.resize(levels);
  pmu_->untouched = std::move(*machine::make_machine(config_));  // as it was made before
  buckets_.map("handler", "<sampling handler>", probes::Handler::kBase, probes::Handler::kBytes);
}

void Simulation::fetch_sampled(std::uint64_t line, const stream::Exit& info) {
  pmu_->code.exit = info;
  Watch<CodeProbe> watch{pmu_->code, classify_.get(), residency_.get()};
  machine_->fetch(line, 1, watch);
  if (pmu_->untouched) pmu_->untouched->fetch(line, 1, code_probe_);
  if (pmu_->code.interrupted) interrupt();
}

void Simulation::data_sampled(const stream::Exit& info, const std::uint64_t* addresses) {
  Pmu& pmu = *pmu_;
  Watch<Probe> watch{probe_, classify_.get(), residency_.get()};
  const std::uint64_t clock = instructions_ - info.instructions;
  for (std::uint32_t i = 0; i < info.operations; ++i) {
    const std::uint32_t number = info.first_operation + i;
    const machine::Step step = steps_[number];
    const bool happens = addresses[i] != machine::kNoAddress;
    probe_.first_operation = number;
    probe_.latency = pmu.hit_latency;
    if (pmu.tags)
      probe_.listening = step.kind != machine::AccessKind::store &&
                         step.kind != machine::AccessKind::prefetch && happens &&
                         pmu.tags->issue(clock + code_.operations[number].instruction);
    before_access(number);
    machine_->data_run(&step, addresses + i, 1, watch);
    if (pmu.untouched) pmu.untouched->data_run(&step, addresses + i, 1, code_probe_);
    after_access(number, addresses[i]);
    if (pmu.tags && probe_.listening) pmu.tags->done(probe_.latency);
    if (probe_.interrupted) interrupt();
  }
}

// The handler runs. The PMU is frozen while it does: its own misses are no events.
void Simulation::interrupt() {
  Pmu& pmu = *pmu_;
  probe_.interrupted = false;
  pmu.code.interrupted = false;
  ++pmu.interrupts;
  pmu.handler_cycles += pmu.handler_cost;
  if (pmu.handler) disturb();
  if (pmu.budget)
    probe_.sampler.set_period(pmu.budget->next_period(
        probe_.sampler.events(), instructions_ + probe_.waited + pmu.code.waited,
        pmu.handler_cycles, pmu.interrupts));
}

namespace {

// Cycles that the handler waits.
struct HandlerProbe {
  std::uint64_t waited = 0;
  bool missed = false;
  void on_miss(const machine::Miss& miss) { missed |= miss.counted; }
  void on_translation_miss(const machine::TranslationMiss&) {}
  void on_access_done(const machine::Served& served) {
    waited += missed ? served.latency : served.translation;
    missed = false;
  }
};

std::vector<machine::Counters> counters_of(const machine::Machine& machine) {
  std::vector<machine::Counters> all;
  const machine::MachineConfig& config = machine.config();
  for (std::uint32_t i = 0; i < config.caches.size(); ++i) all.push_back(machine.cache_counters(i));
  for (std::uint32_t i = 0; i < config.tlbs.size(); ++i) all.push_back(machine.tlb_counters(i));
  return all;
}

void add_difference(machine::Counters& sum, const machine::Counters& before,
                    const machine::Counters& after) {
  for (std::uint32_t kind = 0; kind < machine::kKinds; ++kind) {
    sum.accesses[kind] += after.accesses[kind] - before.accesses[kind];
    sum.misses[kind] += after.misses[kind] - before.misses[kind];
  }
  sum.evictions += after.evictions - before.evictions;
}

}  // namespace

void Simulation::disturb() {
  Pmu& pmu = *pmu_;
  const std::vector<machine::Counters> before = counters_of(*machine_);
  HandlerProbe probe;
  Watch<HandlerProbe> watch{probe, nullptr, residency_.get()};
  const std::uint64_t functions = 1 + code_.blocks.size() / 8;
  pmu.handler->run(probe_.sampler.last(), buckets_.ranges(), functions,
                   [&](std::uint64_t address, std::uint32_t bytes, bool writes) {
                     const auto kind =
                         writes ? machine::AccessKind::store : machine::AccessKind::load;
                     machine_->data(address, bytes, kind, watch);
                   });
  pmu.handler_cycles += probe.waited;
  const std::vector<machine::Counters> after = counters_of(*machine_);
  for (std::size_t i = 0; i < after.size(); ++i)
    add_difference(pmu.by_handler[i], before[i], after[i]);
}

machine::Counters Simulation::counted(machine::Counters counters, std::uint32_t level) const {
  if (!pmu_ || pmu_->by_handler.empty()) return counters;
  const machine::Counters& its = pmu_->by_handler[level];
  for (std::uint32_t kind = 0; kind < machine::kKinds; ++kind) {
    counters.accesses[kind] -= its.accesses[kind];
    counters.misses[kind] -= its.misses[kind];
  }
  counters.evictions -= its.evictions;
  return counters;
}

void Simulation::fill_pmu(SimulationTables& tables) const {
  const Pmu& pmu = *pmu_;
  tables.sample_code = pmu.code.sampler != nullptr;
  tables.interrupts = pmu.interrupts;
  tables.program_cycles = instructions_ + probe_.waited + pmu.code.waited;
  tables.handler_cycles = pmu.handler_cycles;
  if (pmu.tags) {
    tables.loads = pmu.tags->loads();
    tables.tags = pmu.tags->tags();
  }
  if (tables.sample_code) fill_code(tables);
}

void Simulation::fill_code(SimulationTables& tables) const {
  const CodePlaces places(code_);
  for (std::size_t i = 0; i < tables.sample.rows(); ++i) {
    const CodePlace place = places.find(tables.sample.block[i], tables.sample.operation[i]);
    tables.sample.block[i] = place.block;
    tables.sample.operation[i] = place.operation;
  }
  MissTable by_instruction;
  pmu_->code.misses.fill(by_instruction);
  for (std::size_t i = 0; i < by_instruction.rows(); ++i) {
    const std::uint32_t at = by_instruction.operation[i];
    const CodePlace place = places.find(by_instruction.bucket[i], at);
    tables.code_miss.append({by_instruction.level[i], by_instruction.region[i], place.block,
                             code_.instructions[at].address, place.operation,
                             by_instruction.misses[i], by_instruction.latency[i]});
  }
}

}  // namespace stallscope::session
