// SPDX-License-Identifier: Apache-2.0
#include "machine/machine.h"

#include <algorithm>

namespace stallscope::machine {
namespace {

// Stands where there is nothing to be settled.
constexpr std::uint64_t kNothingSettled[1] = {kEmpty};
// Stands where there is no TLB: with pages of half the address space, every page is settled.
constexpr std::uint64_t kOnePage[1] = {key_of(0)};

bool begins_path(const auto& configs, std::size_t index) {
  const auto first = [&](auto on_path) {
    std::size_t i = 0;
    while (i < configs.size() && !on_path(configs[i].holds)) ++i;
    return i;
  };
  return index == first(on_data_path) || index == first(on_fetch_path);
}

// Each cache draws from its own sequence; the generator must not start at 0.
std::uint64_t seed_of(std::uint64_t seed, std::size_t index) {
  return (seed + index + 1) * 0x9e3779b97f4a7c15ULL | 1;
}

// Caches nearer to the core on a path that `outer` is on.
bool serves(const CacheConfig& outer, const CacheConfig& inner) {
  return (on_data_path(outer.holds) && on_data_path(inner.holds)) ||
         (on_fetch_path(outer.holds) && on_fetch_path(inner.holds));
}

}  // namespace

Machine::Machine(const MachineConfig& config)
    : config_(config), mapping_(config.mapping), touches_(config.mapping.page) {
  add_caches();
  add_tlbs();
  add_prefetchers();
  open(data_);
  open(fetch_);
}

void Machine::add_caches() {
  for (std::size_t i = 0; i < config_.caches.size(); ++i) {
    const CacheConfig& cache = config_.caches[i];
    const Geometry geometry{cache.size / cache.line / cache.ways, cache.ways, cache.line};
    auto level =
        std::make_unique<Level>(static_cast<std::uint32_t>(i), geometry, *find_policy(cache.policy),
                                seed_of(config_.seed, i), begins_path(config_.caches, i));
    level->write_allocate = cache.write_allocate;
    level->write_back = cache.write_back;
    level->inclusive = cache.inclusion == Inclusion::inclusive;
    level->exclusive = cache.inclusion == Inclusion::exclusive;
    level->latency = cache.latency;
    by_line_ |= level->exclusive;
    for (std::size_t j = 0; j < i; ++j)
      if (serves(cache, config_.caches[j])) level->inside.push_back(caches_[j].get());
    if (on_data_path(cache.holds)) data_.caches.add(level.get());
    if (on_fetch_path(cache.holds)) fetch_.caches.add(level.get());
    caches_.push_back(std::move(level));
  }
}

void Machine::add_tlbs() {
  for (std::size_t i = 0; i < config_.tlbs.size(); ++i) {
    const TlbConfig& tlb = config_.tlbs[i];
    const Geometry geometry{tlb.entries / tlb.ways, tlb.ways, tlb.page};
    auto level = std::make_unique<Level>(static_cast<std::uint32_t>(i), geometry,
                                         *find_policy("lru"), 1, begins_path(config_.tlbs, i));
    level->latency = tlb.latency;
    if (on_data_path(tlb.holds)) data_.tlbs.add(level.get());
    if (on_fetch_path(tlb.holds)) fetch_.tlbs.add(level.get());
    tlbs_.push_back(std::move(level));
  }
}

void Machine::add_prefetchers() {
  for (const PrefetcherConfig& config : config_.prefetchers) {
    Level& level = *caches_[config.level];
    const std::uint64_t page_lines = std::max<std::uint64_t>(1, 4096 >> level.bits);
    auto prefetcher = find_prefetcher(config.kind)->make(config.degree, page_lines);
    if (prefetcher) level.prefetchers.push_back({std::move(prefetcher), config.crosses_pages});
  }
}

// Settled lines are virtual. Under a random mapping that serves as long as a line's set depends on
// its offset in the page only; else every access goes the slow way.
void Machine::open(Port& port) {
  const bool identity = mapping_.identity();
  port.plain = identity && !config_.mapping.cleared && port.caches.depth > 0;
  for (std::uint32_t depth = 0; depth < port.caches.depth; ++depth) {
    const Level& cache = *port.caches.levels[depth];
    port.plain &=
        cache.write_allocate && cache.write_back && !cache.exclusive && cache.prefetchers.empty();
  }
  Front& front = port.front;
  front = {kNothingSettled, 0, kOnePage, 0, 0, 0, kOnePageBits};
  if (port.caches.depth) {
    const Level& cache = *port.caches.levels[0];
    front.line_bits = cache.bits;
    front.offset_mask = (std::uint64_t{1} << cache.bits) - 1;
    if ((identity || cache.set_bytes() <= mapping_.page()) && !cache.settled.empty()) {
      front.lines = cache.settled.data();
      front.lines_mask = cache.settled_mask();
    }
  }
  if (port.tlbs.depth) {
    const Level& tlb = *port.tlbs.levels[0];
    front.page_bits = tlb.bits;
    front.pages = tlb.settled.empty() ? kNothingSettled : tlb.settled.data();
    front.pages_mask = tlb.settled_mask();
  }
}

bool Machine::invalidate_inside(Level& level, std::uint64_t line) {
  bool dirty = false;
  for (Level* inner : level.inside) {
    const std::uint64_t first = level.address_of(line) >> inner->bits;
    const std::uint64_t count = std::uint64_t{1} << (level.bits - inner->bits);
    for (std::uint64_t i = 0; i < count; ++i) {
      const std::uint64_t tag = inner->remove(first + i);
      if (tag == kEmpty) continue;
      ++inner->counters.invalidations;
      inner->counters.writebacks += tag & kDirty;
      dirty |= tag & kDirty;
    }
  }
  return dirty;
}

void Machine::write_back(Path& path, std::uint32_t depth, std::uint64_t physical) {
  for (; depth < path.depth; ++depth) {
    Level& level = *path.levels[depth];
    if (level.write_back && level.mark(physical >> level.bits, kDirty)) return;
  }
}

bool Machine::leave(Path& path, std::uint32_t depth, std::uint64_t victim, std::uint64_t& moving) {
  Level& level = *path.levels[depth];
  ++level.counters.evictions;
  bool dirty = victim & kDirty;
  if (level.inclusive) dirty |= invalidate_inside(level, line_of(victim));
  level.counters.writebacks += dirty;
  if (depth + 1 < path.depth && path.levels[depth + 1]->exclusive)
    moving = (victim & ~kFlags) | (dirty ? kDirty : 0);
  else if (dirty)
    write_back(path, depth + 1, level.address_of(line_of(victim)));
  return dirty;
}

Counters Machine::cache_counters(std::uint32_t cache) const {
  Counters counters = caches_[cache]->counters;
  for (const Port* port : {&data_, &fetch_})
    if (port->caches.depth && port->caches.levels[0] == caches_[cache].get())
      counters.add(port->accesses);
  return counters;
}

Counters Machine::tlb_counters(std::uint32_t tlb) const {
  Counters counters = tlbs_[tlb]->counters;
  for (const Port* port : {&data_, &fetch_})
    if (port->tlbs.depth && port->tlbs.levels[0] == tlbs_[tlb].get()) counters.add(port->accesses);
  return counters;
}

void Machine::reset_counters() {
  stored_ = !clean();
  for (auto& level : caches_) level->counters = {};
  for (auto& level : tlbs_) level->counters = {};
  for (Port* port : {&data_, &fetch_}) std::fill_n(port->accesses, kKinds, 0);
}

std::vector<std::uint64_t> Machine::resident(std::uint32_t cache) {
  const Level& level = *caches_[cache];
  std::vector<std::uint64_t> lines;
  for (const std::uint64_t tag : level.resident())
    lines.push_back(virtual_address(level, line_of(tag)));
  return lines;
}

Result<std::unique_ptr<Machine>> make_machine(const MachineConfig& config) {
  if (Status checked = check(config); !checked) return checked.error();
  return std::unique_ptr<Machine>(new Machine(config));
}

}  // namespace stallscope::machine
