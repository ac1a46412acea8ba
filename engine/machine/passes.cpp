// SPDX-License-Identifier: Apache-2.0
#include "machine/passes.h"

#include <algorithm>
#include <bit>
#include <memory>
#include <utility>

#include "machine/policies/lru_x86.h"

namespace stallscope::machine {
namespace {

constexpr std::uint32_t kUsualLineBits = 6, kUsualPageBits = 12;
constexpr std::uint64_t kNoLine = ~std::uint64_t{0};
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
  const auto batch = std::make_unique<Batch>();
  const auto missed = std::make_unique<Missed>();
  std::vector<Step> steps(Batch::kRoom);
  for (std::size_t done = 0; done < addresses.size();) {
    const std::size_t count = std::min<std::size_t>(addresses.size() - done, Batch::kRoom);
    std::copy_n(addresses.data() + done, count, batch->addresses);
    for (std::uint32_t i = 0; i < count; ++i) {
      steps[i] = Step::of(AccessKind::load, sizes[done + i]);
      batch->spans[i] = Batch::span_of(sizes[done + i], false);
      batch->operations[i] = i;
    }
    const Batch::Place size{count, 0};
    passes.enter(*batch, size, steps.data());
    passes.add_missed(*batch, size, *missed, [](std::uint32_t, std::uint32_t) {});
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
  const auto open = [](Entry& entry, Machine::Port& port) {
    if (port.caches.depth == 0) return;
    entry.gate = gate_of(port);
    entry.cache = stage_of(*port.caches.levels[0], true);
    if (port.tlbs.depth) entry.tlb = stage_of(*port.tlbs.levels[0], true);
  };
  open(data_, machine.data_);
  open(code_, machine.fetch_);
  const auto add = [](std::vector<Stage>& stages, const auto& path) {
    for (std::uint32_t i = 1; i < path.depth; ++i)
      stages.push_back(stage_of(*path.levels[i], false));
  };
  add(caches_, machine.data_.caches);
  add(tlbs_, machine.data_.tlbs);
}

Passes::Gate Passes::gate_of(const Machine::Port& port) {
  const Level& cache = *port.caches.levels[0];
  Gate gate{std::vector(cache.geometry().sets, kNoLine), {kNoLine}, cache.bits, kOnePageBits};
  if (port.tlbs.depth) {
    gate.pages.assign(port.tlbs.levels[0]->geometry().sets, kNoLine);
    gate.page_bits = port.tlbs.levels[0]->bits;
  }
  return gate;
}

Passes::Stage Passes::stage_of(Level& level, bool first) {
  return {&level, first ? pass_for<true, true>(level) : pass_for<false, true>(level),
          first ? pass_for<true, false>(level) : pass_for<false, false>(level),
          level.geometry().sets * level.geometry().ways, first};
}

template <std::uint32_t LineBits, std::uint32_t PageBits>
void Passes::filter(Batch& batch, std::uint64_t count, const Step* steps) {
  Gate& gate = data_.gate;
  const std::uint32_t line_bits = LineBits ? LineBits : gate.line_bits;
  const std::uint32_t page_bits = PageBits ? PageBits : gate.page_bits;
  const std::uint64_t offset_mask = (std::uint64_t{1} << line_bits) - 1;
  std::uint64_t *const lines = gate.lines.data(), *const pages = gate.pages.data();
  const std::uint64_t line_mask = gate.lines.size() - 1, page_mask = gate.pages.size() - 1;
  std::uint32_t *const line_list = data_.lines.entries, *const page_list = data_.pages.entries;
  std::uint64_t line_count = 0, page_count = 0;
  for (std::uint64_t i = 0; i < count; ++i) {
    const std::uint64_t address = batch.addresses[i];
    if ((address & offset_mask) + batch.spans[i] > offset_mask) [[unlikely]] {
      data_.lines.count = static_cast<std::uint32_t>(line_count);
      data_.pages.count = static_cast<std::uint32_t>(page_count);
      filter_crossing(batch, steps[batch.operations[i]], static_cast<std::uint32_t>(i));
      line_count = data_.lines.count;
      page_count = data_.pages.count;
      continue;
    }
    const std::uint64_t line = address >> line_bits, page = address >> page_bits;
    const std::uint64_t last_line = std::exchange(lines[line & line_mask], line);
    const std::uint64_t last_page = std::exchange(pages[page & page_mask], page);
    line_list[line_count] = entry_of(static_cast<std::uint32_t>(i), false);
    page_list[page_count] = entry_of(static_cast<std::uint32_t>(i), false);
    line_count += last_line != line;
    page_count += last_page != page;
  }
  data_.lines.count = static_cast<std::uint32_t>(line_count);
  data_.pages.count = static_cast<std::uint32_t>(page_count);
}

// An access that may go to several lines, or that did not happen.
void Passes::filter_crossing(Batch& batch, const Step& step, std::uint32_t index) {
  const std::uint64_t address = batch.addresses[index];
  if (address == kNoAddress) {
    ++absent_;
    return;
  }
  const std::uint64_t last = machine_.last_byte(address, step.size_less_one + 1);
  batch.last[index] = last;
  const auto settle = [&](std::vector<std::uint64_t>& seen, std::uint32_t bits) {
    for (std::uint64_t line = address >> bits; line <= last >> bits; ++line)
      seen[line & (seen.size() - 1)] = line;
    return entry_of(index, address >> bits != last >> bits);
  };
  data_.lines.entries[data_.lines.count++] = settle(data_.gate.lines, data_.gate.line_bits);
  data_.pages.entries[data_.pages.count++] = settle(data_.gate.pages, data_.gate.page_bits);
}

template <std::uint32_t LineBits, std::uint32_t PageBits>
void Passes::filter_code(const Batch& batch, std::uint64_t count) {
  Gate& gate = code_.gate;
  const std::uint32_t line_bits = LineBits ? LineBits : gate.line_bits;
  const std::uint32_t page_bits = PageBits ? PageBits : gate.page_bits;
  std::uint64_t *const lines = gate.lines.data(), *const pages = gate.pages.data();
  const std::uint64_t line_mask = gate.lines.size() - 1, page_mask = gate.pages.size() - 1;
  std::uint32_t *const line_list = code_.lines.entries, *const page_list = code_.pages.entries;
  const std::uint64_t end = Batch::kFirstFetch + count;
  std::uint64_t line_count = 0, page_count = 0;
  for (std::uint64_t i = Batch::kFirstFetch; i < end; ++i) {
    const std::uint64_t line = batch.addresses[i] >> line_bits;
    const std::uint64_t page = batch.addresses[i] >> page_bits;
    const std::uint64_t last_line = std::exchange(lines[line & line_mask], line);
    const std::uint64_t last_page = std::exchange(pages[page & page_mask], page);
    line_list[line_count] = entry_of(static_cast<std::uint32_t>(i), false);
    page_list[page_count] = entry_of(static_cast<std::uint32_t>(i), false);
    line_count += last_line != line;
    page_count += last_page != page;
  }
  code_.lines.count = static_cast<std::uint32_t>(line_count);
  code_.pages.count = static_cast<std::uint32_t>(page_count);
}

void Passes::enter(Batch& batch, const Batch::Place& size, const Step* steps) {
  const auto usual = [](const Gate& gate) {
    return gate.line_bits == kUsualLineBits && gate.page_bits == kUsualPageBits;
  };
  if (usual(data_.gate))
    filter<kUsualLineBits, kUsualPageBits>(batch, size.data, steps);
  else
    filter<0, 0>(batch, size.data, steps);
  code_.lines.count = code_.pages.count = 0;
  if (size.fetches && usual(code_.gate))
    filter_code<kUsualLineBits, kUsualPageBits>(batch, size.fetches);
  else if (size.fetches)
    filter_code<0, 0>(batch, size.fetches);
  for (Entry* entry : {&data_, &code_}) {
    enter_first(batch, entry->cache, entry->lines);
    if (!entry->tlb.level) entry->pages.count = 0;
    enter_first(batch, entry->tlb, entry->pages);
  }
}

bool Passes::watches(const Stage& stage) const {
  const auto& caches = machine_.config().caches;
  return watched_ < caches.size() && machine_.caches_[watched_].get() == stage.level;
}

// The first level of its path. Leaves in the list what it did not have.
void Passes::enter_first(Batch& batch, Stage& stage, List& list) {
  list.count = look_up(stage, {batch.addresses, batch.last, list.entries, list.count, nullptr, 0,
                               watches(stage) ? batch.victims : nullptr});
  list.entries[list.count] = kNone;
}

const Outcomes& Passes::go_on(Missed& missed) {
  std::uint32_t lines = 0, pages = 0;
  for (std::uint32_t i = 0; i < missed.count; ++i) {
    const std::uint32_t what = missed.what[i];
    lines_[lines] = entry_of(i, what & Missed::kLines);
    lines += what & Missed::kLine;
    pages_[pages] = entry_of(i, what & Missed::kPages);
    pages += what >> 1 & 1;
  }
  std::fill_n(outcomes_->caches, missed.count, Outcome{0});
  std::fill_n(outcomes_->tlbs, missed.count, Outcome{0});
  go_on_path(missed, caches_, lines_, lines, outcomes_->caches, 1);
  go_on_path(missed, tlbs_, pages_, pages, outcomes_->tlbs, depths_);
  return *outcomes_;
}

void Passes::go_on_path(Missed& missed, std::vector<Stage>& stages,
                        std::vector<std::uint32_t>& list, std::uint32_t count, Outcome* outcomes,
                        std::uint32_t unit) {
  std::uint32_t outcome = unit;
  for (Stage& stage : stages) {
    count =
        look_up(stage, {missed.addresses, missed.last, list.data(), count, outcomes,
                        static_cast<Outcome>(outcome), watches(stage) ? missed.victims : nullptr});
    outcome += unit;
  }
  for (std::uint32_t i = 0; i < count; ++i)
    outcomes[index_of(list[i])] = static_cast<Outcome>(outcome);
}

std::uint32_t Passes::look_up(Stage& stage, Job job) {
  if (job.count == 0) return 0;
  const bool full = stage.empty == 0 && job.victims == nullptr;
  const std::uint32_t missed = (full ? stage.full : stage.filling)(*stage.level, job);
  stage.empty -= job.filled;
  Counters& counters = stage.level->counters;
  if (!stage.first) counters.accesses[static_cast<unsigned>(AccessKind::load)] += job.count;
  counters.misses[static_cast<unsigned>(AccessKind::load)] += missed;
  return missed;
}

// `First` of its path: nothing is known of the accesses yet. `Full`: see Stage.
template <typename Set, bool First, bool Full>
inline std::uint32_t Passes::pass(Level& level, Job& job) {
  constexpr std::uint64_t kAhead = 8;
  const Set set(level);
  const std::uint32_t bits = level.bits;
  const std::uint64_t* const addresses = job.addresses;
  std::uint32_t* const list = job.list;
  const std::uint64_t count = job.count;
  const Outcome outcome = job.outcome;
  Outcome* const outcomes = job.outcomes;
  std::uint64_t* const victims = job.victims;
  const bool far = !First && level.tag_bytes() > kNearBytes;
  std::uint64_t missed = 0, crossing = 0, filled = 0;
  for (std::uint64_t i = 0; i < count; ++i) {
    const std::uint32_t entry = list[i];
    if (far && i + kAhead < count)
      level.prefetch_on_host(addresses[index_of(list[i + kAhead])] >> bits);
    list[missed] = entry;
    const std::uint32_t index = index_of(entry);
    if (!First) outcomes[index] = outcome;
    if (crosses(entry)) [[unlikely]] {
      const bool hit = enter_crossing(level, job, index);
      missed += !hit;
      crossing += !hit;
      continue;
    }
    const Touched touched = set.enter(addresses[index] >> bits);
    missed += !touched.hit;
    if constexpr (!Full) {
      filled += !touched.hit & (touched.tag == kEmpty);
      if (victims) victims[index] = touched.tag;
    }
  }
  const std::uint64_t fills = missed - crossing;  // those count for themselves
  level.counters.fills += fills;
  level.counters.evictions += fills - filled;
  job.filled += filled;
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
    job.filled += touched.tag == kEmpty;
    if (touched.tag == kEmpty) continue;
    victim = touched.tag;
    ++level.counters.evictions;
  }
  if (job.victims) job.victims[index] = victim;
  return had_all;
}

#if defined(__x86_64__)
template <typename Lru, bool First, bool Full>
__attribute__((flatten, target("avx512f,avx512vl,avx512dq,bmi,bmi2"))) std::uint32_t
Passes::pass_avx512(Level& level, Job& job) {
  return pass<Simd<Lru>, First, Full>(level, job);
}

template <typename Lru, bool First, bool Full>
__attribute__((flatten, target("avx2,bmi,bmi2"))) std::uint32_t Passes::pass_avx2(Level& level,
                                                                                  Job& job) {
  return pass<Simd<Lru>, First, Full>(level, job);
}
#endif

template <bool First, bool Full>
Passes::Pass Passes::pass_for(const Level& level) {
#if defined(__x86_64__)
  const auto touches = [&](auto lru) { return level.touches_with(decltype(lru)::touch); };
  if (!std::has_single_bit(level.geometry().sets)) return pass<ByPointer, First, Full>;
  const bool avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
                      __builtin_cpu_supports("avx512dq");
  const std::uint32_t ways = level.geometry().ways;
  if (avx512 && touches(LruAvx512<1>{}))
    return ways == 8 ? pass_avx512<LruEight, First, Full> : pass_avx512<LruAvx512<1>, First, Full>;
  if (avx512 && touches(LruAvx512<2>{})) return pass_avx512<LruAvx512<2>, First, Full>;
  if (touches(LruAvx2<1>{}))
    return avx512 ? pass_avx512<LruFour, First, Full> : pass_avx2<LruAvx2<1>, First, Full>;
  if (touches(LruAvx2<2>{})) return pass_avx2<LruAvx2<2>, First, Full>;
  if (touches(LruAvx2<4>{})) return pass_avx2<LruAvx2<4>, First, Full>;
#endif
  return pass<ByPointer, First, Full>;
}

}  // namespace stallscope::machine
