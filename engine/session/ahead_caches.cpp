// SPDX-License-Identifier: Apache-2.0
#include "session/ahead_caches.h"

#include <bit>

namespace stallscope::session {

TimedCaches::TimedCaches(const machine::MachineConfig& config, bool shared_core,
                         bool hardware_prefetch)
    : memory_(config.memory_latency) {
  for (const machine::CacheConfig& cache : config.caches) {
    if (!machine::on_data_path(cache.holds)) continue;
    Level level;
    level.ways = cache.ways;
    level.sets = cache.size / cache.line / cache.ways;
    level.latency = cache.latency;
    line_bits_ = static_cast<unsigned>(std::countr_zero(cache.line));
    levels_.push_back(level);
  }
  for (std::size_t i = 0; i < levels_.size(); ++i) {
    levels_[i].copies = shared_core || i + 1 == levels_.size() ? 1 : 2;
    levels_[i].lines.resize(levels_[i].copies * levels_[i].sets * levels_[i].ways);
  }
  if (!hardware_prefetch) return;
  for (const machine::PrefetcherConfig& wanted : config.prefetchers) {
    const machine::PrefetcherEntry* entry = machine::find_prefetcher(wanted.kind);
    if (entry == nullptr || entry->make == nullptr) continue;
    crosses_pages_ = wanted.crosses_pages;
    for (auto& prefetcher : prefetchers_)
      prefetcher = entry->make(wanted.degree, 4096u >> line_bits_);
  }
}

TimedCaches::Line* TimedCaches::find(Level& level, std::uint32_t copy, std::uint64_t line) {
  Line* set = &level.lines[(copy * level.sets + line % level.sets) * level.ways];
  for (std::uint32_t way = 0; way < level.ways; ++way)
    if (set[way].tag == line) return &set[way];
  return nullptr;
}

void TimedCaches::fill(Level& level, std::uint32_t copy, std::uint64_t line, std::uint64_t ready,
                       bool ahead) {
  Line* set = &level.lines[(copy * level.sets + line % level.sets) * level.ways];
  Line* oldest = set;
  for (std::uint32_t way = 1; way < level.ways; ++way)
    if (set[way].used < oldest->used) oldest = &set[way];
  *oldest = {line, ready, ++clock_, ahead};
}

TimedAccess TimedCaches::access(std::uint64_t address, std::uint64_t now, bool assist, bool ahead) {
  const std::uint64_t line = address >> line_bits_;
  const std::uint32_t core = assist ? 1 : 0;
  TimedAccess result{Served::memory, memory_, false};
  std::uint64_t ready = now + memory_;
  std::size_t at = 0;
  for (; at < levels_.size(); ++at) {
    Level& level = levels_[at];
    Line* found = find(level, level.copies == 2 ? core : 0, line);
    if (found == nullptr) continue;
    found->used = ++clock_;
    const bool waiting = found->ready > now;
    result.latency = level.latency + (waiting ? found->ready - now : 0);
    result.served = waiting ? Served::in_flight
                            : (at + 1 == levels_.size() ? Served::last_level : Served::cache);
    ready = found->ready;
    if (!ahead) {
      result.brought = found->ahead;
      found->ahead = false;
    }
    break;
  }
  for (std::size_t inner = 0; inner < at && inner < levels_.size(); ++inner)
    fill(levels_[inner], levels_[inner].copies == 2 ? core : 0, line, ready, ahead);
  if ((!ahead || assist) && prefetchers_[core] && at > 0) observe(line, now, core);
  return result;
}

std::uint64_t TimedCaches::latency_of(std::uint64_t address, std::uint64_t now, bool assist) {
  const std::uint64_t line = address >> line_bits_;
  for (Level& level : levels_) {
    const Line* found = find(level, level.copies == 2 && assist ? 1 : 0, line);
    if (found != nullptr) return level.latency + (found->ready > now ? found->ready - now : 0);
  }
  return memory_;
}

void TimedCaches::observe(std::uint64_t line, std::uint64_t now, std::uint32_t core) {
  wanted_.clear();
  prefetchers_[core]->observe(line, wanted_);
  for (const std::uint64_t wanted : wanted_) {
    if (!crosses_pages_ && (wanted ^ line) >> (12 - line_bits_)) continue;
    Level& last = levels_.back();
    if (find(last, 0, wanted) == nullptr) fill(last, 0, wanted, now + memory_, false);
  }
}

}  // namespace stallscope::session
