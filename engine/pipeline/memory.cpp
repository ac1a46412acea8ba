// SPDX-License-Identifier: Apache-2.0
#include "pipeline/memory.h"

#include <algorithm>
#include <bit>

namespace stallscope::pipeline {
namespace {

std::uint32_t nth_cache(const machine::MachineConfig& config, bool data, unsigned n) {
  for (std::uint32_t i = 0; i < config.caches.size(); ++i) {
    const machine::Holds holds = config.caches[i].holds;
    if ((data ? machine::on_data_path(holds) : machine::on_fetch_path(holds)) && n-- == 0) return i;
  }
  return static_cast<std::uint32_t>(config.caches.size());
}

std::uint32_t latency_of(const machine::MachineConfig& config, std::uint32_t level) {
  return level < config.caches.size() ? config.caches[level].latency : config.memory_latency;
}

std::uint32_t outermost(const machine::MachineConfig& config) {
  std::uint32_t last = 0;
  for (std::uint32_t i = 0; i < config.caches.size(); ++i)
    if (machine::on_data_path(config.caches[i].holds)) last = i;
  return last;
}

}  // namespace

void Memory::Seen::on_miss(const machine::Miss& miss) {
  if (miss.clearing) return;  // the bus has time enough for that while the kernel is at work
  if (miss.cause == machine::Cause::demand) {
    missed_first |= miss.level == memory.first_;
    missed_second |= miss.level == memory.second_;
  }
  if (miss.cause == machine::Cause::prefetch) {
    const std::uint64_t line = miss.line_address >> memory.line_bits_;
    // One miss for each cache on its way.
    if (ahead == 0 || ahead > kMostAhead || ahead_lines[ahead - 1] != line) {
      if (ahead < kMostAhead) ahead_lines[ahead] = line;
      ++ahead;
    }
    if (ahead <= kMostAhead) ahead_levels[ahead - 1] = miss.level;
  }
  if (miss.level == memory.last_ && miss.victim_dirty) ++writebacks;
}

void Memory::Seen::on_translation_miss(const machine::TranslationMiss& miss) {
  missed_tlb |= miss.counted;
}

void Memory::Seen::on_access_done(const machine::Served& served) {
  done = true;
  level = served.level;
  latency = served.latency - served.translation;
  translation = served.translation;
  walked = translation > 0 && translation == memory.machine_.config().page_walk_latency;
}

Memory::Memory(machine::Machine& machine, const CoreConfig& config, Ideal ideal, std::uint32_t bus,
               EventCounts& events)
    : machine_(machine),
      events_(events),
      reject_(is_ideal(ideal, Cause::rejection) ? 0 : config.reject),
      translation_rejects_(config.translation_rejects),
      ideal_(ideal),
      bus_(bus),
      outstanding_(is_ideal(ideal, Cause::rejection) ? 0 : config.misses),
      coming_(kComing),
      stored_(kStored),
      served_(machine.config().caches.size() + 1),
      buffer_(config.store_buffer) {
  const machine::MachineConfig& made = machine.config();
  caches_ = static_cast<std::uint32_t>(made.caches.size());
  first_ = nth_cache(made, true, 0);
  second_ = nth_cache(made, true, 1);
  last_ = outermost(made);
  hit_ = is_ideal(ideal, Cause::load_store) ? 1 : std::max(1u, latency_of(made, first_));
  const std::uint32_t code = nth_cache(made, false, 0);
  code_hit_ = code < caches_ ? latency_of(made, code) : 0;
  line_bits_ = first_ < caches_ ? std::countr_zero(made.caches[first_].line) : 6;
  write_through_ = first_ < caches_ && !made.caches[first_].write_back;
}

std::uint64_t Memory::translated(const Seen& seen, std::uint64_t issued) {
  if (seen.translation == 0 || is_ideal(ideal_, Cause::translation)) return issued;
  std::uint64_t wait = seen.translation;
  if (translation_rejects_ && reject_ > 0) {
    const std::uint64_t times = (wait + reject_ - 1) / reject_;
    events_[Event::reissues] += times;
    ++events_[Event::rejections];
    wait = times * reject_;
  }
  events_[Event::translation_cycles] += wait;
  return issued + wait;
}

std::uint64_t Memory::reissued(std::uint64_t ready, std::uint64_t until, Finished& out) {
  if (reject_ == 0) return until;
  const std::uint64_t times = (until - ready + reject_ - 1) / reject_;
  events_[Event::reissues] += times;
  ++events_[Event::rejections];
  out.rejected += times * reject_;
  return ready + times * reject_;
}

std::uint64_t Memory::start_miss(std::uint64_t ready, bool rejects, Finished& out) {
  if (outstanding_.empty()) return ready;
  const std::uint64_t free = *std::min_element(outstanding_.begin(), outstanding_.end());
  if (free <= ready) return ready;
  events_[Event::miss_full] += free - ready;
  return rejects ? reissued(ready, free, out) : free;
}

std::uint64_t Memory::bring(const Seen& seen, std::uint64_t line, std::uint64_t start,
                            std::uint32_t latency) {
  if (seen.level == caches_) start = on_bus(start);
  const std::uint64_t arrival = start + latency;
  if (!outstanding_.empty()) *std::min_element(outstanding_.begin(), outstanding_.end()) = arrival;
  events_[Event::miss_cycles] += latency;
  coming(line) = {line, arrival, static_cast<std::uint8_t>(seen.level)};
  quiet_from_ = std::max(quiet_from_, arrival);
  return arrival;
}

// A prefetch never waits for a place among the misses, but takes its turn on the bus.
void Memory::bring_ahead(const Seen& seen, std::uint64_t start) {
  events_[Event::prefetches] += seen.ahead;
  if (is_ideal(ideal_, Cause::data_cache)) return;
  const machine::MachineConfig& config = machine_.config();
  for (std::uint32_t i = 0; i < std::min(seen.ahead, kMostAhead); ++i) {
    const std::uint32_t source = seen.ahead_levels[i] + 1;
    const std::uint64_t from = source >= caches_ ? on_bus(start) : start;
    const std::uint64_t arrival = from + latency_of(config, source);
    coming(seen.ahead_lines[i]) = {seen.ahead_lines[i], arrival,
                                   static_cast<std::uint8_t>(std::min(source, caches_))};
    quiet_from_ = std::max(quiet_from_, arrival);
  }
}

void Memory::count(const Seen& seen) {
  events_[Event::erat_misses] += seen.missed_tlb;
  events_[Event::tlb_misses] += seen.walked;
  events_[Event::l2_misses] += seen.missed_second;
  if (seen.writebacks) {
    events_[Event::bus_writebacks] += seen.writebacks;
    events_[Event::bus_busy] += seen.writebacks * bus_;
    bus_free_ += seen.writebacks * bus_;
  }
}

// The data is that of a store in front, whose line may not be there yet.
bool Memory::forwarded(std::uint64_t address, std::uint64_t ready, Finished& out) {
  const Stored& before = stored(address >> 3);
  if (before.granule != address >> 3 || std::max(before.ready, before.arrival) <= ready)
    return false;
  ++events_[Event::store_forwards];
  std::uint64_t from = ready;
  if (before.ready > ready) from = reissued(ready, before.ready, out);
  out.finish = from + hit_;
  return true;
}

Finished Memory::load(std::uint64_t address, std::uint32_t size, std::uint64_t issued) {
  ++events_[Event::loads];
  Seen seen{*this};
  machine_.data(address, size, machine::AccessKind::load, seen);
  Finished out{issued + hit_};
  const std::uint64_t line = address >> line_bits_;
  std::uint64_t ready = issued;
  if (seen.done) [[unlikely]] {
    count(seen);
    ready = translated(seen, issued);
    out.finish = ready + hit_;
    if (ready > issued) out.cause = Cause::translation;
    if (seen.ahead) bring_ahead(seen, ready);
  }
  const bool ideal = is_ideal(ideal_, Cause::data_cache);
  if (forwarded(address, ready, out)) {
    if (!seen.missed_first) return out;
  }
  if (seen.done && seen.level != first_) {
    events_[Event::l1d_load_misses] += 1;
    ++served_[seen.level];
    const std::uint32_t behind = seen.level == caches_ ? 3 : seen.level - first_;
    events_[behind >= 3 ? Event::from_memory : behind == 2 ? Event::from_l3 : Event::from_l2] += 1;
    if (ideal) return out;
    const Coming ahead = coming(line);
    const std::uint64_t start = start_miss(ready, true, out);
    std::uint64_t arrival = bring(seen, line, start, std::max(seen.latency, hit_));
    out.source = static_cast<std::uint8_t>(seen.level);
    if (ahead.line == line && ahead.arrival > arrival) {
      arrival = ahead.arrival;
      out.source = ahead.source;
      coming(line) = ahead;
    }
    out.finish = arrival;
    out.cause = Cause::data_cache;
  } else if (!ideal && ready + hit_ < quiet_from_) {
    const Coming& on_its_way = coming(line);
    if (on_its_way.line == line && on_its_way.arrival > out.finish) {
      ++events_[Event::late_hits];
      out.finish = on_its_way.arrival;
      out.source = on_its_way.source;
      out.cause = Cause::data_cache;
    }
  }
  return out;
}

Finished Memory::store(std::uint64_t address, std::uint32_t size, std::uint64_t issued) {
  ++events_[Event::stores];
  Seen seen{*this};
  machine_.data(address, size, machine::AccessKind::store, seen);
  Finished out{issued + 1};
  const std::uint64_t line = address >> line_bits_;
  std::uint64_t ready = issued;
  if (seen.done) [[unlikely]] {
    count(seen);
    ready = translated(seen, issued);
    out.finish = ready + 1;
    if (ready > issued) out.cause = Cause::translation;
    if (seen.ahead) bring_ahead(seen, ready);
    if (seen.missed_first) ++events_[Event::l1d_store_misses];
  }
  // Written through, it is the second cache that must have the line.
  const bool missed = write_through_ ? seen.missed_second : seen.missed_first;
  if (missed && !is_ideal(ideal_, Cause::data_cache)) {
    Finished ignored{0};
    const std::uint32_t latency =
        seen.level == first_ ? machine_.config().memory_latency : seen.latency;
    ++served_[seen.level];
    out.arrival = bring(seen, line, start_miss(ready, false, ignored), latency);
    out.source = static_cast<std::uint8_t>(seen.level);
  }
  stored(address >> 3) = {address >> 3, out.finish, out.arrival};
  // Its place in the buffer is that of the store so many before it.
  const Written& before = buffer_[finished_stores_++ % buffer_.size()];
  if (before.cycle > out.finish) {
    out.finish = before.cycle;
    out.cause = before.source == kNoSource ? Cause::load_store : Cause::data_cache;
    if (before.source != kNoSource) out.source = before.source;
  }
  return out;
}

Finished Memory::prefetch(std::uint64_t address, std::uint64_t issued) {
  Seen seen{*this};
  machine_.data(address, 1, machine::AccessKind::prefetch, seen);
  const Finished out{issued + 1};
  if (!seen.done) return out;
  Seen written{*this};  // its misses do not count, what they throw out goes over the bus
  written.writebacks = seen.writebacks;
  count(written);
  const std::uint64_t ready =
      issued + (is_ideal(ideal_, Cause::translation) ? 0 : seen.translation);
  if (seen.ahead) bring_ahead(seen, ready);
  if (seen.level == first_) return out;
  ++events_[Event::prefetches];
  if (is_ideal(ideal_, Cause::data_cache)) return out;
  Finished ignored{0};
  bring(seen, address >> line_bits_, start_miss(ready, false, ignored), seen.latency);
  return out;
}

void Memory::retire(const Finished& store, std::uint64_t cycle) {
  Written& slot = buffer_[retired_stores_++ % buffer_.size()];
  const std::uint64_t inorder = std::max(cycle, last_write_) + 1;
  slot.cycle = std::max(inorder, store.arrival);
  // Also one that waits behind a store that waits for its line does so for that line.
  const Written& before = buffer_[(retired_stores_ + buffer_.size() - 2) % buffer_.size()];
  const bool behind = last_write_ > cycle && buffer_.size() > 1;
  slot.source = store.arrival >= inorder ? store.source : behind ? before.source : kNoSource;
  last_write_ = slot.cycle;
}

std::uint64_t Memory::fetch(std::uint64_t address, std::uint32_t bytes, std::uint64_t cycle) {
  ++events_[Event::icache_lines];
  Seen seen{*this};
  machine_.fetch(address, bytes, seen);
  const bool ideal = is_ideal(ideal_, Cause::inst_cache);
  std::uint64_t ready = cycle;
  if (seen.done) {
    count_code(seen);
    const std::uint32_t wait = seen.latency > code_hit_ ? seen.latency - code_hit_ : 0;
    if (wait > 0) ++events_[Event::icache_misses];
    if (!ideal && seen.ahead) bring_ahead(seen, cycle);
    ready = cycle + wait + seen.translation;
    if (wait > 0 && seen.level == caches_ && !ideal)
      ready = on_bus(cycle) + wait + seen.translation;
  }
  if (ideal) return cycle;
  if (cycle < quiet_from_) {
    const Coming& on_its_way = coming(address >> line_bits_);
    if (on_its_way.line == address >> line_bits_) ready = std::max(ready, on_its_way.arrival);
  }
  events_[Event::icache_cycles] += ready - cycle;
  return ready;
}

void Memory::count_code(const Seen& seen) {
  if (seen.missed_tlb) ++events_[Event::ierat_misses];
  events_[Event::bus_writebacks] += seen.writebacks;
  events_[Event::bus_busy] += seen.writebacks * bus_;
}

// From when on a line that comes from memory has the bus.
std::uint64_t Memory::on_bus(std::uint64_t start) {
  const std::uint64_t granted = std::max(start, bus_free_);
  events_[Event::bus_waits] += granted - start;
  ++events_[Event::bus_transfers];
  events_[Event::bus_busy] += bus_;
  bus_free_ = granted + bus_;
  return granted;
}

void Memory::disturb(std::uint64_t address) {
  Seen seen{*this};
  machine_.data(address, 8, machine::AccessKind::load, seen);
}

}  // namespace stallscope::pipeline
