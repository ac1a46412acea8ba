// SPDX-License-Identifier: Apache-2.0
#include "session/simulation.h"

#include <bit>

#include "session/memory_events.h"
#include "session/pmu.h"
#include "session/stack_steps.h"
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

std::size_t levels_of(const machine::MachineConfig& config) {
  return config.caches.size() + config.tlbs.size();
}

const char* holds_name(machine::Holds holds) {
  return holds == machine::Holds::data   ? "data"
         : holds == machine::Holds::both ? "both"
                                         : "instructions";
}

constexpr machine::AccessKind kKindOf[] = {
    machine::AccessKind::load, machine::AccessKind::store, machine::AccessKind::modify,
    machine::AccessKind::load /* none */, machine::AccessKind::prefetch};

// The event's level must be there, and be on the way of what is asked for.
Status check_event(const machine::MachineConfig& config, const SimulationOptions& options) {
  const std::size_t caches = config.caches.size(), levels = caches + config.tlbs.size();
  if (options.event < 0 && !options.event_code) return Done{};
  const auto level = static_cast<std::size_t>(options.event);
  if (options.event < 0 || level >= levels)
    return Error{"the machine has no such level", "", "an event that the machine has"};
  const machine::Holds holds =
      level < caches ? config.caches[level].holds : config.tlbs[level - caches].holds;
  if (options.event_code ? !machine::on_fetch_path(holds) : !machine::on_data_path(holds))
    return Error{"the level never sees what is to be counted", "", "another event"};
  if (options.event_code && options.tagged)
    return Error{"only loads can be tagged, no instruction fetches", "", "counter sampling"};
  return Done{};
}

}  // namespace

void Simulation::Probe::on_miss(const machine::Miss& miss) {
  if (miss.counted && miss.cause == machine::Cause::demand) missed |= 1u << miss.level;
  if (miss.victim != machine::kNoVictim) victims.push_back({miss.level, miss.victim});
}

void Simulation::Probe::on_translation_miss(const machine::TranslationMiss& miss) {
  if (miss.counted) missed |= 1u << (caches + miss.tlb);
}

// Nobody waits for it; but what it threw out, it threw out.
void Simulation::Probe::on_prefetched(const machine::Served& served) {
  if (evictions && !victims.empty()) {
    const probes::BucketId bucket = misses.bucket_of(served.address);
    for (const Victim& victim : victims)
      misses.evict(victim.level, bucket_of(victim), bucket, operation);
  }
  victims.clear();
  missed = 0;
}

void Simulation::Probe::on_access_done(const machine::Served& served) {
  if (served.kind == machine::AccessKind::prefetch) return on_prefetched(served);
  const std::uint32_t of_caches = missed & ((1u << caches) - 1);
  latency = served.latency;
  waited += of_caches ? served.latency : served.translation;
  if (served.latency < min_latency) {
    victims.clear();
    missed = 0;
    return;
  }
  const probes::BucketId bucket = misses.bucket_of(served.address);
  misses.add(bucket, operation, missed, served.latency - served.translation, served.translation);
  if (missed >> event & 1 && listening && sampler.count()) sample(served, bucket);
  if (evictions)
    for (const Victim& victim : victims)
      misses.evict(victim.level, bucket_of(victim), bucket, operation);
  if (offsets)
    offsets->miss(bucket, served.address, operation, missed >> event & 1,
                  (of_caches ? served.latency - served.translation : 0) +
                      (missed >> caches ? served.translation : 0));
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
  sampler.take({.bucket = bucket,
                .victim = thrown_out,
                .operation = operation,
                .latency = served.latency,
                .address = served.address,
                .served = probes::served_by(served.level, caches)});
  interrupted = true;
}

Result<std::unique_ptr<Simulation>> Simulation::make(const machine::MachineConfig& config,
                                                     const stream::CodeTable& code,
                                                     const SimulationOptions& options) {
  if (config.caches.size() + config.tlbs.size() > probes::kMaxLevels)
    return Error{"the machine has more caches and TLBs than can be told apart", "", ""};
  if (Status checked = check_event(config, options); !checked) return checked.error();
  if (!(options.budget >= 0 && options.budget < 1))
    return Error{"the handler's budget is a share of the run, so from 0 to below 1", "", ""};
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
      misses_(buckets_, static_cast<unsigned>(config.caches.size()),
              static_cast<unsigned>(config.tlbs.size())),
      probe_{misses_,
             probes::Sampler(options.period, options.wanted, options.seed),
             options.event < 0 ? first_data_cache(config) : static_cast<unsigned>(options.event),
             static_cast<unsigned>(config.caches.size()),
             options.evictions,
             line_sizes_of(config),
             options.min_latency,
             0,
             0,
             0,
             {},
             nullptr,
             {}},
      offsets_(options.offsets ? std::make_unique<probes::Offsets>(buckets_) : nullptr),
      classify_(options.classify ? std::make_unique<probes::Classify>(config, buckets_) : nullptr),
      residency_(options.evictions ? std::make_unique<probes::Residency>(config, buckets_)
                                   : nullptr),
      frames_(options.frames ? std::make_unique<probes::Frames>() : nullptr),
      code_line_(line_of_code(config)),
      code_lines_(code, code_line_) {
  probe_.offsets = offsets_.get();
  attach(options);
  buckets_.follow(frames_.get());
  if (!options.watch_all() && machine::Passes::serves(*machine_))
    quick_ = std::make_unique<Quick>(*machine_, code_, code_lines_, buckets_, probe_.sampler,
                                     probe_.event, options.alone);
}

Simulation::~Simulation() = default;

std::optional<machine::Gates> Simulation::gates_of(const machine::MachineConfig& config,
                                                   const SimulationOptions& options) {
  const auto made = machine::make_machine(config);
  if (!made || options.watch_all() || !machine::Passes::serves(**made)) return std::nullopt;
  return machine::Passes::gates_of(**made);
}

void Simulation::attach_elements(std::unique_ptr<Elements> elements) {
  elements_ = std::move(elements);
  if (offsets_)
    offsets_->ask([this](const auto& question) { return elements_->element_size(question); });
}

void Simulation::learn_exits() {
  for (std::size_t i = steps_.size(); i < code_.operations.size(); ++i) {
    const stream::Operation& operation = code_.operations[i];
    steps_.push_back(machine::Step::of(kKindOf[operation.kind], operation.size));
  }
  if (frames_) learn_stack_steps(code_, stack_steps_);
  if (!quick_) return;
  quick_->learn_exits();
  quick_exits_ = quick_->exits();
}

void Simulation::on_block_watched(std::uint32_t exit, const stream::Exit& info,
                                  const std::uint64_t* addresses) {
  if (steps_.size() < code_.operations.size()) learn_exits();
  instructions_ += info.instructions;
  accesses_ += info.operations;
  if (residency_) residency_->advance(instructions_);
  fetch_watched(exit, info);
  if (info.operations > 0) data_watched(info, addresses);
}

void Simulation::fetch_watched(std::uint32_t exit, const stream::Exit& info) {
  Watch<machine::NullProbe> watch{code_probe_, classify_.get(), residency_.get()};
  for (const std::uint64_t line : code_lines_.of(exit)) {
    if (line == last_line_) continue;  // the most recent line: nothing would change
    last_line_ = line;
    if (pmu_)
      fetch_sampled(line, info);
    else
      machine_->fetch(line, 1, watch);
    if (classify_) classify_->fetch(line, 1);
  }
}

void Simulation::data_watched(const stream::Exit& info, const std::uint64_t* addresses) {
  if (pmu_) return data_sampled(info, addresses);
  const machine::Step* const steps = steps_.data() + info.first_operation;
  probe_.first_operation = info.first_operation;
  if (!classify_ && !residency_ && !frames_)
    return machine_->data_run(steps, addresses, info.operations, probe_);
  Watch<Probe> watch{probe_, classify_.get(), residency_.get()};
  if (!classify_ && !frames_) return machine_->data_run(steps, addresses, info.operations, watch);
  for (std::uint32_t i = 0; i < info.operations; ++i, ++probe_.first_operation) {
    before_access(probe_.first_operation);
    machine_->data_run(steps + i, addresses + i, 1, watch);
    after_access(probe_.first_operation, addresses[i]);
  }
}

void Simulation::before_access(std::uint32_t operation) {
  if (frames_) frames_->at(operation);
}

void Simulation::after_access(std::uint32_t operation, std::uint64_t address) {
  if (address == machine::kNoAddress) return;
  const machine::Step step = steps_[operation];
  if (classify_ && step.kind != machine::AccessKind::prefetch)
    classify_->data(address, step.size_less_one + 1, step.kind, operation);
  if (!frames_ || stack_steps_[operation] == probes::Frames::Step::none) return;
  if (stack_steps_[operation] == probes::Frames::Step::call)
    frames_->call(address);
  else
    frames_->leave(address);
}

void Simulation::memory(unsigned tag, const std::uint64_t* words, std::uint32_t count) {
  if (tag == SS_ALLOC) {
    const auto& record = *reinterpret_cast<const ss_alloc*>(words);
    if (!record.address) return change(Quick::Change::revive, record.old_address);
    const auto site = static_cast<std::uint32_t>(record.site);
    if (quick_) return change(Quick::Change::allocate, record.address, record.size, site);
    const probes::BucketId bucket = buckets_.allocate(record.address, record.size, site);
    if (offsets_ && record.kind == SS_ALLOC_KIND_NEW_ARRAY) offsets_->is_new_array(bucket);
  } else if (tag == SS_SITE && elements_) {
    if (auto record = stream::view<ss_site>(words, count); record) {
      const auto* frames = reinterpret_cast<const std::uint64_t*>(record->tail.data());
      elements_->site(static_cast<std::uint32_t>(record->fields->site),
                      {frames, frames + record->tail.size() / 8});
    }
  } else if (tag == SS_FREE) {
    change(Quick::Change::release, reinterpret_cast<const ss_free*>(words)->address);
  } else if (tag == SS_UNMAP) {
    const auto& record = *reinterpret_cast<const ss_unmap*>(words);
    change(Quick::Change::unmap, record.address, record.length);
  } else if (tag == SS_NAME_BLOCK) {
    if (auto record = stream::view<ss_name_block>(words, count); record)
      buckets().give_name(record->tail, record->fields->address, record->fields->size);
  }
}

void Simulation::change(Quick::Change change, std::uint64_t address, std::uint64_t size,
                        std::uint32_t site) {
  const Quick::Deferred deferred{0, site, change, address, size};
  if (quick_)
    quick_->defer(deferred);
  else
    Quick::apply(deferred, buckets_);
}

void Simulation::mark(unsigned tag, const std::uint64_t* words, std::uint32_t count) {
  const std::uint32_t thread = SS_HEAD_THREAD(words[0]);
  if (tag == SS_THREAD_SWITCH) {
    regions_.run(thread);
    if (frames_) frames_->run(thread);
  } else if (tag == SS_THREAD_EXIT) {
    regions_.exit(thread);
    if (frames_) frames_->exit(thread);
  } else if (tag == SS_MARK) {
    const auto record = stream::view<ss_mark>(words, count);
    if (!record) return;
    if (record->fields->kind == SS_MARK_KIND_REGION_BEGIN) regions_.begin(thread, record->tail);
    if (record->fields->kind == SS_MARK_KIND_REGION_END) regions_.end(thread, record->tail);
  } else {
    return;
  }
  if (const std::uint32_t now = regions_.current(); now != region_) enter(now);
}

void Simulation::enter(std::uint32_t region) {
  catch_up();
  if (quick_) quick_->count();
  regions_.charge(region_, done());
  region_ = region;
  misses_.enter(region);
  if (quick_) quick_->enter_region(region);
  probe_.sampler.enter(region);
  if (offsets_) offsets_->enter(region);
  if (classify_) classify_->enter(region);
  if (residency_) residency_->enter(region);
  if (pmu_) pmu_->code.misses.enter(region);
}

Status Simulation::on_record(unsigned tag, const std::uint64_t* words, std::uint32_t count) {
  if (tag == SS_SIFTED) {
    const auto record = stream::view<ss_sifted>(words, count);
    if (!record || !quick_)
      return Error{"the stream has sifted accesses where all are wanted", "", ""};
    return quick_->on_sifted(*record->fields, record->tail);
  }
  memory(tag, words, count);
  tell_memory(*machine_, tag, words, count);
  mark(tag, words, count);
  return Done{};
}

probes::Regions::Done Simulation::done() const {
  const std::uint64_t instructions = this->instructions();
  std::uint64_t accesses = this->accesses();
  probes::Regions::Done all{instructions, accesses, {}};
  if (quick_) accesses -= quick_->absent();
  const std::vector<Quick::Uncounted> uncounted =
      quick_ ? quick_->uncounted() : std::vector<Quick::Uncounted>(levels_of(config_));
  for (const std::uint64_t absent : probe_.absent) accesses -= absent;
  // The first level of each path: data accesses are counted here and not by the machine, and every
  // instruction is an access, though only those to another line than the last were simulated.
  bool fetched = false, accessed = false;
  for (std::uint32_t i = 0; i < config_.caches.size(); ++i) {
    const machine::Holds holds = config_.caches[i].holds;
    machine::Counters counters = counted(machine_->cache_counters(i), i);
    if (!fetched && machine::on_fetch_path(holds))
      counters.accesses[static_cast<int>(machine::AccessKind::fetch)] = instructions;
    const std::uint64_t more = !accessed && machine::on_data_path(holds) ? accesses : 0;
    fetched |= machine::on_fetch_path(holds);
    accessed |= machine::on_data_path(holds);
    all.levels.push_back({counters.accessed() + more - uncounted[i].accesses,
                          counters.missed() - uncounted[i].misses, counters.evictions});
  }
  bool translated = false;
  for (std::uint32_t i = 0; i < config_.tlbs.size(); ++i) {
    const bool of_data = machine::on_data_path(config_.tlbs[i].holds);
    const std::size_t level = config_.caches.size() + i;
    const machine::Counters counters =
        counted(machine_->tlb_counters(i), static_cast<std::uint32_t>(level));
    const std::uint64_t more = !translated && of_data ? accesses : 0;
    translated |= of_data;
    all.levels.push_back({counters.accessed() + more - uncounted[level].accesses,
                          counters.missed() - uncounted[level].misses, counters.evictions});
  }
  return all;
}

void Simulation::fill_levels(const probes::Regions::Done& all, LevelTable& table) const {
  std::uint8_t number = 0;
  const auto add = [&](const auto& config, const char* kind) {
    const probes::Regions::LevelCounts& counts = all.levels[number];
    const Disturbance disturbed =
        pmu_ ? pmu_->disturbance(number, counts.misses) : Disturbance{0, counts.misses};
    table.append({number++, config.name, kind, holds_name(config.holds), counts.accesses,
                  counts.misses, counts.evictions, config.latency, disturbed.by_handler,
                  disturbed.without});
  };
  for (const machine::CacheConfig& cache : config_.caches) add(cache, "cache");
  for (const machine::TlbConfig& tlb : config_.tlbs) add(tlb, "tlb");
}

void Simulation::fill_samples(SimulationTables& tables) const {
  for (const probes::Sample& sample : probe_.sampler.samples())
    tables.sample.append({sample.bucket, sample.victim, sample.operation, sample.block,
                          sample.latency, sample.region, sample.address, sample.served,
                          sample.weight});
  tables.sample_period = probe_.sampler.period();
  tables.sample_events = probe_.sampler.events();
  tables.sample_level = probe_.event;
}

SimulationTables Simulation::tables() {
  SimulationTables tables;
  catch_up();
  probes::Misses misses = misses_;
  if (quick_) {
    quick_->count();
    quick_->add_to(misses);
  }
  const probes::Regions::Done all = done();
  fill_levels(all, tables.level);
  probes::Regions regions = regions_;
  regions.charge(region_, all);
  regions.fill(tables.region);
  regions.fill(tables.region_level);
  buckets_.fill(tables.bucket);
  misses.fill(tables.miss);
  misses.fill(tables.eviction);
  fill_samples(tables);
  if (pmu_) fill_pmu(tables);
  if (classify_) classify_->fill(tables.miss_class);
  if (residency_) residency_->fill(tables.resident);
  if (offsets_) {
    tables.has_offsets = true;
    offsets_->fill(tables.offset);
    offsets_->fill(tables.fold);
  }
  return tables;
}

}  // namespace stallscope::session
