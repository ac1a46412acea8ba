// SPDX-License-Identifier: Apache-2.0
// The way of an access through a machine. Included by machine.h only.
#pragma once

#include "machine/machine.h"

namespace stallscope::machine {

template <typename Probe>
inline void Machine::access(Port& port, std::uint64_t address, std::uint32_t size, AccessKind kind,
                            Probe& probe) {
  ++port.accesses[static_cast<unsigned>(kind)];
  if (port.front.differs(address, size - 1, !writes(kind))) [[unlikely]]
    access_slowly(port, address, size, kind, probe);
}

template <typename Probe>
[[gnu::noinline]] void Machine::access_slowly(Port& port, std::uint64_t address, std::uint32_t size,
                                              AccessKind kind, Probe& probe) {
  const Front& front = port.front;
  const std::uint64_t last = last_byte(address, size);
  const bool cleared = config_.mapping.cleared && kind != AccessKind::fetch &&
                       kind != AccessKind::prefetch && clear_first(address, last, probe);
  const std::uint32_t translation =
      front.page_differs(address, last) ? translate(port, address, last, kind, probe) : 0;
  std::uint32_t depth = 0;
  bool further_out = cleared;  // the first cache had it, but stores or prefetches went on
  if (!front.line_differs(address, size - 1, !writes(kind))) {
    // Only its page was not settled.
  } else if (port.plain && (address ^ last) >> front.line_bits == 0) [[likely]] {
    const std::uint64_t flags = writes(kind) ? kDirty : 0;
    const Touched touched = touch_plainly(*port.caches.levels[0], address, flags);
    depth = touched.hit ? 0 : miss_plainly(port.caches, address, kind, touched.tag, probe);
  } else {
    Walk walk{port.caches, address, kind, Cause::demand, 0};
    walk.counted = 1;  // by the port
    walk.writing = writes(kind);
    walk_range(walk, address, last, probe);
    depth = walk.served;
    further_out |= (walk.missed | walk.noticed) != 0;
  }
  if (depth == 0 && translation == 0 && !further_out) return;
  report_served(port, depth, translation, address, kind, probe);
}

template <typename Probe>
void Machine::report_served(const Port& port, std::uint32_t depth, std::uint32_t translation,
                            std::uint64_t address, AccessKind kind, Probe& probe) const {
  // Where no cache holds this kind (no instruction cache, say) nothing is known, and nothing costs.
  const bool memory = depth == port.caches.depth;
  const std::uint32_t level =
      memory ? static_cast<std::uint32_t>(caches_.size()) : port.caches.levels[depth]->index;
  const std::uint32_t latency = !memory             ? port.caches.levels[depth]->latency
                                : port.caches.depth ? config_.memory_latency
                                                    : 0;
  probe.on_access_done(Served{level, kind, latency + translation, translation, address});
}

inline Touched Machine::touch_plainly(Level& level, std::uint64_t address, std::uint64_t flags) {
  const std::uint64_t line = address >> level.bits;
  const std::uint64_t set = level.set_of(line);
  const Touched touched = level.touch(set, key_of(line), flags);
  level.settle(set, touched.hit          ? touched.tag | flags
                    : level.fill_settles ? key_of(line) | flags
                                         : kEmpty);
  return touched;
}

// The rest of the way of an access that a plain port's first cache did not have, and for which it
// threw out `victim`; the depth that served it.
template <typename Probe>
std::uint32_t Machine::miss_plainly(Path& path, std::uint64_t address, AccessKind kind,
                                    std::uint64_t victim, Probe& probe) {
  for (std::uint32_t depth = 0;;) {
    Level& level = *path.levels[depth];
    if (depth + 2 < path.depth) {
      const Level& outer = *path.levels[depth + 2];
      outer.prefetch_on_host(address >> outer.bits);
    }
    ++level.counters.misses[static_cast<unsigned>(kind)];
    ++level.counters.fills;
    bool dirty = false;
    std::uint64_t victim_address = kNoVictim;
    if (victim != kEmpty) {
      victim_address = level.address_of(line_of(victim));
      if (level.inclusive || victim & kDirty) {
        std::uint64_t moving;
        dirty = leave(path, depth, victim, moving);
      } else {
        ++level.counters.evictions;
      }
    }
    probe.on_miss(Miss{level.index, kind, Cause::demand, true, dirty,
                       address >> level.bits << level.bits, address, victim_address});
    if (++depth == path.depth) return depth;
    Level& next = *path.levels[depth];
    ++next.counters.accesses[static_cast<unsigned>(kind)];
    const Touched touched = touch_plainly(next, address, 0);  // the first level took the store
    if (touched.hit) return depth;
    victim = touched.tag;
  }
}

// A store to every line, that nobody waits for and that no level counts as an access.
template <typename Probe>
bool Machine::clear_first(std::uint64_t address, std::uint64_t last, Probe& probe) {
  bool any = false;
  const std::uint64_t bytes = mapping_.page();
  std::uint64_t page = touches_.first_of(address);
  for (std::uint64_t left = (last - page) / bytes + 1; left > 0; --left, page += bytes) {
    if (!touches_.clears(page) || data_.caches.depth == 0) continue;
    any = true;
    const std::uint64_t line = std::uint64_t{1} << data_.caches.levels[0]->bits;
    for (std::uint64_t at = 0; at < bytes; at += line) {
      Walk walk{data_.caches, address, AccessKind::store, Cause::cleared, 0};
      walk.writing = true;
      walk_range(walk, page + at, page + at, probe);
    }
  }
  return any;
}

// Cycles that the translation adds.
template <typename Probe>
std::uint32_t Machine::translate(Port& port, std::uint64_t first, std::uint64_t last,
                                 AccessKind kind, Probe& probe) {
  if (port.tlbs.depth == 0) return 0;
  for (std::uint32_t depth = 0; depth < port.tlbs.depth; ++depth) {
    Level& tlb = *port.tlbs.levels[depth];
    if (depth > 0) ++tlb.counters.accesses[static_cast<unsigned>(kind)];
    bool missed = false;
    for (std::uint64_t page = first >> tlb.bits; page <= last >> tlb.bits; ++page) {
      const std::uint64_t set = tlb.set_of(page);
      const Touched touched = tlb.touch(set, key_of(page), 0);
      tlb.settle(set, key_of(page));
      if (touched.hit) continue;
      ++tlb.counters.fills;
      tlb.counters.evictions += touched.tag != kEmpty;
      probe.on_translation_miss(
          TranslationMiss{tlb.index, kind, !missed, tlb.address_of(page), first});
      missed = true;
    }
    if (!missed) return depth == 0 ? 0 : tlb.latency;
    ++tlb.counters.misses[static_cast<unsigned>(kind)];
  }
  return config_.page_walk_latency;
}

template <typename Probe>
void Machine::walk_range(Walk& walk, std::uint64_t first, std::uint64_t last, Probe& probe) {
  if (!by_line_) {
    walk_outwards(walk, first, last, probe);
  } else {
    const std::uint32_t bits = walk.path.levels[walk.start]->bits;
    const bool writing = walk.writing;
    for (std::uint64_t line = first >> bits; line <= last >> bits; ++line) {
      walk.writing = writing;
      walk.holder = nullptr;
      walk_outwards(walk, line << bits, line << bits, probe);
    }
  }
  if (walk.noticed && walk.cause == Cause::demand)
    for (std::uint32_t depth = 0; depth < walk.path.depth; ++depth)
      if (walk.noticed >> depth & 1) run_prefetchers(walk, depth, probe);
}

template <typename Probe>
void Machine::walk_outwards(Walk& walk, std::uint64_t first, std::uint64_t last, Probe& probe) {
  Path& path = walk.path;
  bool found = false;
  std::uint32_t depth = walk.start;
  for (; depth < path.depth && (!found || walk.writing); ++depth) {
    const bool hit = look_up(walk, depth, first, last, probe);
    if (walk.moving != kEmpty) move_in(walk, depth, probe);
    if (hit && !found) {
      found = true;
      if (depth > walk.served) walk.served = depth;
    }
  }
  if (!found) walk.served = path.depth;
  for (; walk.moving != kEmpty && depth < path.depth; ++depth) move_in(walk, depth, probe);
}

// Whether the level has every line of the range.
template <typename Probe>
bool Machine::look_up(Walk& walk, std::uint32_t depth, std::uint64_t first, std::uint64_t last,
                      Probe& probe) {
  Level& level = *walk.path.levels[depth];
  if (walk.cause == Cause::demand && !(walk.counted >> depth & 1)) {
    walk.counted |= 1u << depth;
    ++level.counters.accesses[static_cast<unsigned>(walk.kind)];
  }
  const bool allocates = level.write_allocate || walk.kind != AccessKind::store || !walk.writing;
  bool hit = true;
  for (std::uint64_t line = first >> level.bits; line <= last >> level.bits; ++line)
    hit &= level.exclusive ? look_up_exclusive(walk, depth, line, probe)
                           : look_up_line(walk, depth, line, probe);
  // The store stays in the first cache that has the line and writes back.
  if (walk.writing && level.write_back && (hit || (allocates && !level.exclusive)))
    walk.writing = false;
  return hit;
}

template <typename Probe>
bool Machine::look_up_line(Walk& walk, std::uint32_t depth, std::uint64_t virtual_line,
                           Probe& probe) {
  Level& level = *walk.path.levels[depth];
  const bool allocates = level.write_allocate || walk.kind != AccessKind::store || !walk.writing;
  const bool prefetch = walk.cause == Cause::prefetch && depth == walk.start;
  const std::uint64_t flags =
      walk.writing && level.write_back ? kDirty : (prefetch ? kPrefetched : 0);
  const std::uint64_t line = physical_line(level, virtual_line);
  const std::uint64_t set = level.set_of(line);
  const Touched touched =
      allocates ? level.touch(set, key_of(line), flags) : level.look(set, key_of(line), flags);
  if (touched.hit) {
    level.settle(set, key_of(virtual_line) | ((touched.tag | flags) & kDirty));
    if (touched.tag & kPrefetched) {
      ++level.counters.prefetch_useful;
      walk.noticed |= 1u << depth;
    }
    return true;
  }
  if (allocates) {
    level.settle(set, level.fill_settles && !prefetch ? key_of(virtual_line) | flags : kEmpty);
    ++(walk.cause == Cause::prefetch ? level.counters.prefetch_fills : level.counters.fills);
  }
  walk.holder = allocates ? &level : nullptr;
  if (!level.prefetchers.empty()) walk.noticed |= 1u << depth;
  miss(walk, depth, virtual_line, touched.tag, allocates, probe);
  return false;
}

// A hit takes the line out and hands it, with its dirt, to the cache inside that was just filled.
// Where none was (a store that does not allocate), the line stays.
template <typename Probe>
bool Machine::look_up_exclusive(Walk& walk, std::uint32_t depth, std::uint64_t virtual_line,
                                Probe& probe) {
  Level& level = *walk.path.levels[depth];
  const std::uint64_t line = physical_line(level, virtual_line);
  const std::uint64_t flags = walk.writing && level.write_back ? kDirty : 0;
  const std::uint64_t tag =
      walk.holder ? level.remove(line) : level.look(level.set_of(line), key_of(line), flags).tag;
  if (tag == kEmpty) {
    miss(walk, depth, virtual_line, kEmpty, false, probe);
    return false;
  }
  if (walk.holder && tag & kDirty) walk.holder->mark(line, kDirty);
  return true;
}

// Counts and reports a missing line, and sends the victim on.
template <typename Probe>
void Machine::miss(Walk& walk, std::uint32_t depth, std::uint64_t virtual_line,
                   std::uint64_t victim, bool filled, Probe& probe) {
  Level& level = *walk.path.levels[depth];
  const bool counted = walk.cause == Cause::demand && !(walk.missed >> depth & 1);
  if (counted) {
    walk.missed |= 1u << depth;
    ++level.counters.misses[static_cast<unsigned>(walk.kind)];
  }
  const bool evicts = victim != kEmpty;
  const bool dirty = evicts && leave(walk.path, depth, victim, walk.moving);
  probe.on_miss(Miss{level.index, walk.kind, walk.cause, counted, dirty,
                     level.address_of(virtual_line), walk.address,
                     evicts ? virtual_address(level, line_of(victim)) : kNoVictim, filled,
                     walk.cause == Cause::cleared});
}

// What the level inside threw out comes into this one, if it is exclusive.
template <typename Probe>
void Machine::move_in(Walk& walk, std::uint32_t depth, Probe& probe) {
  Level& level = *walk.path.levels[depth];
  if (!level.exclusive) return;
  const std::uint64_t moved = walk.moving;
  walk.moving = kEmpty;
  const std::uint64_t set = level.set_of(line_of(moved));
  level.unsettle(set);
  const Touched touched = level.touch(set, moved & ~kFlags, moved & kDirty);
  if (touched.hit) return;
  ++level.counters.fills;
  if (touched.tag == kEmpty) return;
  const bool dirty = leave(walk.path, depth, touched.tag, walk.moving);
  probe.on_miss(Miss{level.index, walk.kind, Cause::moved, false, dirty,
                     virtual_address(level, line_of(moved)), walk.address,
                     virtual_address(level, line_of(touched.tag)), true,
                     walk.cause == Cause::cleared});
}

template <typename Probe>
void Machine::run_prefetchers(Walk& walk, std::uint32_t depth, Probe& probe) {
  constexpr std::uint32_t kPageBits = 12;
  Level& level = *walk.path.levels[depth];
  const std::uint64_t line = walk.address >> level.bits;
  for (const auto& [prefetcher, crosses_pages] : level.prefetchers) {
    wanted_.clear();
    prefetcher->observe(line, wanted_);
    for (const std::uint64_t wanted : wanted_) {
      const std::uint64_t address = level.address_of(wanted);
      if (!crosses_pages && (address ^ walk.address) >> kPageBits) continue;
      if (level.mark(physical_line(level, wanted), 0)) continue;
      Walk ahead{walk.path, walk.address, walk.kind, Cause::prefetch, depth};
      walk_range(ahead, address, address, probe);
    }
  }
}

template <typename Probe>
void Machine::data_run(const Step* steps, const std::uint64_t* addresses, std::uint32_t count,
                       Probe& probe) {
  for (std::uint32_t i = 0; i < count; ++i) {
    const Step& step = steps[i];
    if (!data_.front.differs(addresses[i], step.size_less_one, step.reads)) continue;
    if (addresses[i] == kNoAddress) {
      probe.on_absent(step.kind);
      continue;
    }
    if (step.kind == AccessKind::prefetch) probe.on_absent(step.kind);
    probe.at(i);
    access_slowly(data_, addresses[i], step.size_less_one + 1, step.kind, probe);
  }
}

}  // namespace stallscope::machine
