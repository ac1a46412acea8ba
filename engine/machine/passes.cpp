// SPDX-License-Identifier: Apache-2.0
#include "machine/passes.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <memory>
#include <utility>

#include "machine/policies/lru_x86.h"
#include "machine/split.h"

namespace stallscope::machine {
namespace {

// Tags of this size stay near the host's core.
constexpr std::uint64_t kNearBytes = 256 << 10;

bool settles(const Level& level) { return !level.settled.empty() && level.fill_settles; }

// Lines grow outwards, so that what lies within one line does so everywhere.
bool lines_grow(Level* const* levels, std::uint32_t depth) {
  for (std::uint32_t i = 1; i < depth; ++i)
    if (levels[i]->bits < levels[i - 1]->bits) return false;
  return true;
}

// Each kind enters by itself; behind the first level both go the same way.
bool join(const auto& data, const auto& code) {
  if (code.depth != data.depth) return false;
  return data.depth == 0 ||
         (data.levels[0] != code.levels[0] &&
          std::equal(data.levels + 1, data.levels + data.depth, code.levels + 1));
}

// One level's sets, as a pass works on them. For policies that have nothing better:
struct ByPointer {
  Level& level;
  explicit ByPointer(Level& of) : level(of) {}
  Touched enter(std::uint64_t line) const {
    return level.touch(level.set_of(line), key_of(line), 0);
  }
};
#if defined(__x86_64__)
template <typename Lru>
struct Simd {
  Sets sets;
  std::uint64_t mask;
  explicit Simd(Level& of) : sets(of.sets()), mask(of.geometry().sets - 1) {}
  Touched enter(std::uint64_t line) const { return Lru::enter(sets, line & mask, key_of(line)); }
};
#endif

}  // namespace

bool Passes::opens(const Machine::Port& port) {
  const auto &caches = port.caches, &tlbs = port.tlbs;
  if (!port.plain || !settles(*caches.levels[0]) || !lines_grow(caches.levels, caches.depth))
    return false;
  for (std::uint32_t i = 0; i < caches.depth; ++i)
    if (caches.levels[i]->inclusive) return false;
  if ((caches.depth + 1) * (tlbs.depth + 1) > kOutcomes) return false;
  if (tlbs.depth == 0) return true;
  return settles(*tlbs.levels[0]) && lines_grow(tlbs.levels, tlbs.depth) &&
         tlbs.levels[0]->bits >= caches.levels[0]->bits;
}

bool Passes::serves_data(const Machine& machine) { return opens(machine.data_); }

bool Passes::serves(const Machine& machine) {
  const Machine::Port &data = machine.data_, &fetch = machine.fetch_;
  if (!opens(data)) return false;
  if (fetch.caches.depth == 0) return true;  // then nothing is fetched
  return opens(fetch) && join(data.caches, fetch.caches) && join(data.tlbs, fetch.tlbs);
}

void Passes::leave() {
  for (const Entry* entry : {&data_, &code_})
    for (Level* level : {entry->cache.level, entry->tlb.level})
      if (level) std::fill(level->settled.begin(), level->settled.end(), kEmpty);
}

void run_loads(Machine& machine, std::span<const std::uint64_t> addresses,
               std::span<const std::uint32_t> sizes) {
  constexpr std::uint32_t kNoCache = ~0u;
  Passes passes(machine, kNoCache);
  const Gate data(Passes::gates_of(machine).data), code({});
  const auto batch = std::make_unique<Batch>();
  const auto missed = std::make_unique<Missed>();
  ss_batch& gathered = batch->gathered;
  for (std::size_t done = 0; done < addresses.size();) {
    const std::size_t count = std::min<std::size_t>(addresses.size() - done, SS_BATCH_ROOM);
    std::copy_n(addresses.data() + done, count, gathered.addresses);
    for (std::uint32_t i = 0; i < count; ++i) {
      gathered.spans[i] = ss_span(sizes[done + i], false);
      gathered.operations[i] = i;  // each one of its own
    }
    gathered.data = count;
    ss_filter(&data.get(), &code.get(), &gathered, sizes.data() + done, batch->last,
              &batch->lookups);
    Passes::list(*batch);
    passes.enter(*batch, false);
    MissedOf(*batch, *missed).add_rest();
    done += count;
    if (!missed->has_enough() && done < addresses.size()) continue;
    passes.go_on(*missed);
    missed->clear();
  }
  passes.count(0, addresses.size());
  passes.leave();
}

Passes::Passes(Machine& machine, std::uint32_t watched)
    : machine_(machine), watched_(watched), depths_(machine.data_.caches.depth + 1) {
  const auto open = [](Entry& entry, Machine::Port& port, Tells tells) {
    if (port.caches.depth == 0) return;
    entry.cache = stage_of(*port.caches.levels[0], tells, true);
    if (port.tlbs.depth) entry.tlb = stage_of(*port.tlbs.levels[0], tells, true);
  };
  open(data_, machine.data_, Tells::marks);
  open(code_, machine.fetch_, Tells::nothing);
  const auto add = [](std::vector<Stage>& stages, const auto& path) {
    for (std::uint32_t i = 1; i < path.depth; ++i) {
      Level& level = *path.levels[i];
      // Whoever comes as far as the second is known beforehand.
      const bool known = i == 1 && level.tag_bytes() <= kNearBytes;
      stages.push_back(stage_of(level, known ? Tells::nothing : Tells::outcomes, false));
    }
  };
  add(caches_, machine.data_.caches);
  add(tlbs_, machine.data_.tlbs);
  if (caches_.empty()) return;
  repeats_ = std::make_unique<Repeats>(*caches_.front().level);
  caches_.front().repeats = repeats_.get();
}

Gates Passes::gates_of(const Machine& machine) {
  const auto shape_of = [](const Machine::Port& port) {
    GateShape shape;
    if (port.caches.depth) {
      shape.lines = port.caches.levels[0]->geometry().sets;
      shape.line_bits = port.caches.levels[0]->bits;
    }
    if (port.tlbs.depth) {
      shape.pages = port.tlbs.levels[0]->geometry().sets;
      shape.page_bits = port.tlbs.levels[0]->bits;
    }
    return shape;
  };
  return {shape_of(machine.data_), shape_of(machine.fetch_)};
}

Passes::Stage Passes::stage_of(Level& level, Tells tells, bool first) {
  const auto stage = [&]<Tells Told>() {
    return Stage{
        &level,
        {pass_for<Told, Looks::no_further>(level), pass_for<Told, Looks::for_crossing>(level),
         pass_for<Told, Looks::for_victims>(level)},
        first,
        level.empty_ways(),
        level.counters.fills};
  };
  if (tells == Tells::nothing) return stage.template operator()<Tells::nothing>();
  if (tells == Tells::marks) return stage.template operator()<Tells::marks>();
  return stage.template operator()<Tells::outcomes>();
}

void Passes::list(Batch& batch) {
  const auto list_marked = [](const ss_marks& marks, std::uint64_t count, ss_list& lines,
                              ss_list& pages) {
    const Split lengths =
        split(marks.of, static_cast<std::uint32_t>(count), lines.entries, pages.entries);
    lines.count = lengths.lines;
    pages.count = lengths.pages;
    return lengths.crossing;
  };
  const ss_batch& gathered = batch.gathered;
  batch.crossing = list_marked(batch.lookups.data, gathered.data, batch.lines, batch.pages);
  list_marked(batch.lookups.code, gathered.fetches, batch.code_lines, batch.code_pages);
}

void Passes::enter(Batch& batch, bool victims) {
  if (!data_.cache.level) batch.lines.count = 0;
  if (!data_.tlb.level) batch.pages.count = 0;
  for (ss_marks* marks : {&batch.missed_lines, &batch.missed_pages})
    std::fill_n(marks->of, batch.gathered.data, std::uint8_t{0});
  const bool watched = victims && watches(data_.cache);
  enter_first(batch, data_.cache, batch.lines, &batch.missed_lines, SS_MARK_LINE, watched);
  enter_first(batch, data_.tlb, batch.pages, &batch.missed_pages, SS_MARK_PAGE, false);
  if (!code_.cache.level) batch.code_lines.count = 0;
  if (!code_.tlb.level) batch.code_pages.count = 0;
  enter_first(batch, code_.cache, batch.code_lines, nullptr, 0, victims && watches(code_.cache));
  enter_first(batch, code_.tlb, batch.code_pages, nullptr, 0, false);
}

bool Passes::watches(const Stage& stage) const {
  const auto& caches = machine_.config().caches;
  return watched_ < caches.size() && machine_.caches_[watched_].get() == stage.level;
}

void Passes::count(std::uint64_t fetches, std::uint64_t loads) {
  machine_.fetch_.accesses[static_cast<unsigned>(AccessKind::fetch)] += fetches;
  machine_.data_.accesses[static_cast<unsigned>(AccessKind::load)] += loads;
  for (Stage* stage : {&data_.cache, &data_.tlb})
    if (stage->level) count_evictions(*stage);
  for (const auto& [code, data] : {std::pair(&code_.cache, &data_.cache), {&code_.tlb, &data_.tlb}})
    if (code->level && code->level != data->level) count_evictions(*code);
  for (auto* stages : {&caches_, &tlbs_})
    for (Stage& stage : *stages) count_evictions(stage);
}

// Fills that found no empty way, worked out here so that nobody has to look at each.
void Passes::count_evictions(Stage& stage) {
  Counters& counters = stage.level->counters;
  const std::uint64_t fills = counters.fills - stage.counted_fills;
  if (fills == 0) return;
  const std::uint64_t empty = stage.empty ? stage.level->empty_ways() : 0;
  counters.evictions += fills - (stage.empty - empty);
  stage.counted_fills = counters.fills;
  stage.empty = empty;
}

// The first level of its path. Leaves in the list what it did not have. Without marks: of fetches.
void Passes::enter_first(Batch& batch, Stage& stage, ss_list& list, ss_marks* marks,
                         std::uint8_t mark, bool victims) {
  const bool crossing = marks && batch.crossing;  // no fetch does
  const std::uint32_t first = marks ? 0 : SS_FIRST_FETCH;
  list.count = look_up(
      stage, {batch.gathered.addresses + first, batch.last, list.entries, list.count, crossing,
              victims ? batch.victims + first : nullptr, marks ? marks->of : nullptr, mark});
}

const Outcomes& Passes::go_on(Missed& missed) {
  const auto [lines, pages, crossing] =
      split(missed.what, missed.count, lines_.data(), pages_.data());
  const auto unit = static_cast<std::uint8_t>(depths_);
  for (std::uint32_t i = 0; i < missed.count; ++i) {
    outcomes_->caches[i] = missed.what[i] & 1;
    outcomes_->tlbs[i] = static_cast<Outcome>((missed.what[i] >> 1 & 1) * unit);
  }
  go_on_path(missed, caches_, lines_, lines, crossing, outcomes_->caches, 1);
  go_on_path(missed, tlbs_, pages_, pages, crossing, outcomes_->tlbs, depths_);
  return *outcomes_;
}

void Passes::go_on_path(Missed& missed, std::vector<Stage>& stages,
                        std::vector<std::uint32_t>& list, std::uint32_t count, bool crossing,
                        Outcome* outcomes, std::uint32_t unit) {
  std::uint32_t outcome = unit;
  for (Stage& stage : stages) {
    count = look_up(stage, {missed.addresses, missed.last, list.data(), count, crossing,
                            watches(stage) ? missed.victims : nullptr, nullptr, 0, outcomes,
                            static_cast<Outcome>(outcome)});
    outcome += unit;
  }
  for (std::uint32_t i = 0; i < count; ++i)
    outcomes[index_of(list[i])] = static_cast<Outcome>(outcome);
}

std::uint32_t Passes::look_up(Stage& stage, Job job) {
  if (job.count == 0) return 0;
  const std::uint32_t asked = job.count;
  if (stage.repeats)
    job.count = stage.repeats->drop(job.list, job.count, job.addresses, job.last, job.crossing);
  const Looks looks = job.victims    ? Looks::for_victims
                      : job.crossing ? Looks::for_crossing
                                     : Looks::no_further;
  const std::uint32_t missed = stage.by_looks[static_cast<unsigned>(looks)](*stage.level, job);
  Counters& counters = stage.level->counters;
  if (!stage.first) counters.accesses[static_cast<unsigned>(AccessKind::load)] += asked;
  counters.misses[static_cast<unsigned>(AccessKind::load)] += missed;
  return missed;
}

template <typename Set, Passes::Tells Told, Passes::Looks Out>
inline std::uint32_t Passes::pass(Level& level, Job& job) {
  constexpr std::uint64_t kAhead = 8;
  const Set set(level);
  const std::uint32_t bits = level.bits;
  const std::uint64_t* const addresses = job.addresses;
  std::uint32_t* const list = job.list;
  const std::uint64_t count = job.count;
  const Outcome outcome = job.outcome;
  Outcome* const outcomes = job.outcomes;
  std::uint8_t* const marks = job.marks;
  const std::uint8_t mark = job.mark;
  std::uint64_t* const victims = job.victims;
  const bool far = Told == Tells::outcomes && level.tag_bytes() > kNearBytes;
  std::uint64_t missed = 0, crossing = 0;
  for (std::uint64_t i = 0; i < count; ++i) {
    const std::uint32_t entry = list[i];
    if (far && i + kAhead < count)
      level.prefetch_on_host(addresses[index_of(list[i + kAhead])] >> bits);
    list[missed] = entry;
    const std::uint32_t index = index_of(entry);
    if constexpr (Told == Tells::outcomes) outcomes[index] = outcome;
    if (Out != Looks::no_further && crosses(entry)) [[unlikely]] {
      const bool hit = enter_crossing(level, job, index);
      missed += !hit;
      crossing += !hit;
      if constexpr (Told == Tells::marks)
        marks[index] = static_cast<std::uint8_t>(hit ? 0 : mark | mark << 2);
      continue;
    }
    const Touched touched = set.enter(address_of_single(addresses, entry) >> bits);
    const std::uint64_t miss = touched.hit ? 0 : 1;
    missed += miss;
    // No choice between two values here: the compiler would make a branch of it.
    if constexpr (Told == Tells::marks) marks[index] = static_cast<std::uint8_t>(mark & (0 - miss));
    if constexpr (Out == Looks::for_victims) victims[index] = touched.tag;
  }
  level.counters.fills += missed - crossing;  // those count for themselves
  return static_cast<std::uint32_t>(missed);
}

// Whether the level had every line of an access to several.
[[gnu::noinline]] bool Passes::enter_crossing(Level& level, Job& job, std::uint32_t index) {
  std::uint64_t victim = kEmpty;
  bool had_all = true;
  for (std::uint64_t line = job.addresses[index] >> level.bits;
       line <= job.last[index] >> level.bits; ++line) {
    const Touched touched = level.touch(level.set_of(line), key_of(line), 0);
    if (touched.hit) continue;
    had_all = false;
    ++level.counters.fills;
    if (touched.tag != kEmpty) victim = touched.tag;
  }
  if (job.victims) job.victims[index] = victim;
  return had_all;
}

#if defined(__x86_64__)
template <typename Lru, Passes::Tells Told, Passes::Looks Out>
__attribute__((flatten, target("avx512f,avx512vl,avx512dq,bmi,bmi2"))) std::uint32_t
Passes::pass_avx512(Level& level, Job& job) {
  return pass<Simd<Lru>, Told, Out>(level, job);
}

template <typename Lru, Passes::Tells Told, Passes::Looks Out>
__attribute__((flatten, target("avx2,bmi,bmi2"))) std::uint32_t Passes::pass_avx2(Level& level,
                                                                                  Job& job) {
  return pass<Simd<Lru>, Told, Out>(level, job);
}
#endif

template <Passes::Tells Told, Passes::Looks Out>
Passes::Pass Passes::pass_for(const Level& level) {
#if defined(__x86_64__)
  const auto touches = [&](auto lru) { return level.touches_with(decltype(lru)::touch); };
  if (!std::has_single_bit(level.geometry().sets)) return pass<ByPointer, Told, Out>;
  const bool avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
                      __builtin_cpu_supports("avx512dq");
  const std::uint32_t ways = level.geometry().ways;
  if (avx512 && touches(LruAvx512<1>{}))
    return ways == 8 ? pass_avx512<LruEight, Told, Out> : pass_avx512<LruAvx512<1>, Told, Out>;
  if (avx512 && touches(LruAvx512<2>{}))
    return ways == 16 ? pass_avx512<LruSixteen, Told, Out> : pass_avx512<LruAvx512<2>, Told, Out>;
  if (touches(LruAvx2<1>{}))
    return avx512 && ways == 4 ? pass_avx512<LruFour, Told, Out> : pass_avx2<LruAvx2<1>, Told, Out>;
  if (touches(LruAvx2<2>{})) return pass_avx2<LruAvx2<2>, Told, Out>;
  if (touches(LruAvx2<4>{})) return pass_avx2<LruAvx2<4>, Told, Out>;
#endif
  return pass<ByPointer, Told, Out>;
}

}  // namespace stallscope::machine
