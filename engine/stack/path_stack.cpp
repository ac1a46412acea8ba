// SPDX-License-Identifier: Apache-2.0
#include "stack/path_stack.h"

#include <algorithm>
#include <bit>
#include <string>
#include <utility>

namespace stallscope::stack {
namespace {

constexpr std::uint64_t kMostPages = std::uint64_t{1} << 29;
constexpr std::uint32_t kGroup = 8;  // places of an entry; a power of two, at most 64
constexpr std::uint32_t kHeld = 1;   // instead of a place; places begin at kGroup
constexpr std::uint64_t kWhole = (std::uint64_t{1} << kGroup) - 1;
constexpr std::uint64_t kLookups = (std::uint64_t{1} << kLookupBits) - 1;
// The table's entry is asked for this many rows of the log ahead, its bits this many.
constexpr std::size_t kTableAhead = 16, kBitsAhead = 6;

constexpr std::uint64_t kLeastRecent = 16, kMostRecent = 1 << 20;

std::uint32_t places_for(std::uint64_t recent) {
  const std::uint64_t entries = std::clamp(recent, kLeastRecent, kMostRecent);
  return static_cast<std::uint32_t>(std::bit_ceil(2 * entries * kGroup));
}

STALLSCOPE_INLINE std::uint32_t lowest(std::uint64_t bits) {
  return static_cast<std::uint32_t>(std::countr_zero(bits));
}

// Pages at the same entry's places that were used after the one at `place`.
STALLSCOPE_INLINE std::uint32_t after_in_group(const RecencyBits::Cursor& bits,
                                               const std::uint16_t* lookups, std::uint32_t place) {
  const std::uint32_t group = place / kGroup * kGroup;
  const std::uint64_t taken = bits.words[group / 64] >> (group % 64) & kWhole;
  std::uint32_t later = 0;
  for (std::uint64_t others = taken & ~(std::uint64_t{1} << (place - group)); others;
       others &= others - 1) {
    const std::uint32_t other = group + lowest(others);
    later += lookups[other] != lookups[place] ? lookups[other] > lookups[place] : other > place;
  }
  return later;
}

// A free place from `own` on; before it, when there is none up to now.
STALLSCOPE_INLINE std::uint32_t free_place(const RecencyBits::Cursor& bits, std::uint32_t own) {
  std::uint64_t free = ~bits.words[own / 64] & ~std::uint64_t{0} << (own % 64);
  if (free) [[likely]]
    return own / 64 * 64 + lowest(free);
  for (std::uint32_t word = own / 64 + 1; word * 64 < bits.next; ++word)
    if (~bits.words[word]) return word * 64 + lowest(~bits.words[word]);
  for (std::uint32_t word = own / 64; word > 0; --word)
    if (~bits.words[word]) return word * 64 + lowest(~bits.words[word]);
  return kGroup + lowest(~bits.words[0] >> kGroup);
}

}  // namespace

// What the hot loop needs, by value.
struct PathRun {
  RecencyBits::Cursor bits;
  PageTable& pages;
  PageTable::Places table;
  std::uint16_t* lookups;
  std::uint32_t* counts;
  std::uint64_t held, first, origin, entry;
  std::uint64_t room;  // rows that there are counts for

  // A page that was never seen before: the tables hold it.
  PageTable::Entry* add(std::uint64_t page, bool comes) {
    PageTable::Entry* const found = pages.find_or_add(page);
    table = pages.places();
    found->value = kHeld;
    found->unused = 0;
    ++held;
    counts[0] -= comes;  // come() takes it for one that was there
    return found;
  }
  STALLSCOPE_INLINE void come(PageTable::Entry* found, bool is_new) {
    if (found->value == kHeld) {
      found->unused += is_new;
      ++counts[0];
      return;
    }
    if (const std::uint32_t place = found->value; place != 0) {
      const std::uint32_t later =
          bits.after(place | (kGroup - 1)) + after_in_group(bits, lookups, place);
      ++counts[held + later];
      bits.clear(place);
    }
    found->value = kHeld;
    found->unused = 1;
    ++held;
  }

  STALLSCOPE_INLINE void leave(PageTable::Entry* found, std::uint64_t moment) {
    if (found->value == kHeld) {
      if (found->unused > 1) {
        --found->unused;
        return;
      }
      --held;
    } else if (found->value != 0) {
      bits.clear(found->value);
    }
    const std::uint64_t used = std::clamp(moment >> kLookupBits, first, entry);
    const std::uint32_t place =
        free_place(bits, static_cast<std::uint32_t>((used - first + origin) * kGroup));
    bits.set(place);
    lookups[place] = static_cast<std::uint16_t>(moment & kLookups);
    found->value = place;
  }

  STALLSCOPE_INLINE void hint(const std::uint64_t* page, std::size_t i) const {
    table.prefetch(page[i + kTableAhead]);
    if (const std::uint32_t place = table.peek(page[i + kBitsAhead]); place > kHeld)
      bits.prefetch(place);
  }
};

PathStack::PathStack(std::uint64_t recent, std::uint32_t history)
    : bits_(places_for(recent)),
      lookups_(places_for(recent)),
      counts_(history),
      recent_(std::clamp(recent, kLeastRecent, kMostRecent)) {
  reach(0);
}

namespace {

struct Rows {
  std::span<const std::uint64_t> pages;
  std::span<const std::uint8_t> kinds;
  std::span<const std::uint64_t> moments;
};

// From `from` on, until the end, or until an entry has no places or a distance no count. How far
// it got.
STALLSCOPE_INLINE std::size_t run(PathRun at, Rows rows, std::size_t from, PathRun* state) {
  const std::size_t n = std::min(rows.pages.size(), from + at.room);
  std::size_t i = from;
  for (; i < n; ++i) {
    if (i + kTableAhead < n) at.hint(rows.pages.data(), i);
    PageTable::Entry* found = at.table.probe(rows.pages[i]);
    if (found->value == 0) [[unlikely]]
      found = at.add(rows.pages[i], rows.kinds[i] != PathStack::left);
    if (rows.kinds[i] == PathStack::left) {
      at.leave(found, rows.moments[i]);
      continue;
    }
    if (const std::uint64_t entry = rows.moments[i] >> kLookupBits; entry > at.entry) {
      const std::uint64_t end = (entry - at.first + at.origin + 1) * kGroup;
      if (end > at.bits.end) break;
      at.entry = entry;
      at.bits.pass(static_cast<std::uint32_t>(end));
    }
    at.come(found, rows.kinds[i] == PathStack::came);
  }
  state->bits = at.bits;
  state->held = at.held;
  state->entry = at.entry;
  return i;
}

#if defined(__x86_64__)
[[gnu::target("avx512f,avx512bw,avx512vl,avx512dq,bmi,bmi2,popcnt")]] std::size_t run_avx512(
    PathRun* state, Rows rows, std::size_t from) {
  return run(*state, rows, from, state);
}
[[gnu::target("avx2,bmi,bmi2,popcnt")]] std::size_t run_avx2(PathRun* state, Rows rows,
                                                             std::size_t from) {
  return run(*state, rows, from, state);
}
#endif
std::size_t run_plain(PathRun* state, Rows rows, std::size_t from) {
  return run(*state, rows, from, state);
}

auto best_run() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
      __builtin_cpu_supports("avx512dq"))
    return run_avx512;
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi2")) return run_avx2;
#endif
  return run_plain;
}

}  // namespace

Status PathStack::append(std::span<const std::uint64_t> pages, std::span<const std::uint8_t> kinds,
                         std::span<const std::uint64_t> moments) {
  static const auto run_best = best_run();
  if (kinds.size() != pages.size() || moments.size() != pages.size())
    return Error{"a log of PATH units has columns of unequal length", "", ""};
  if (table_.size() + pages.size() > kMostPages)
    return Error{
        "too many pages for an LRU stack",
        "it holds " + std::to_string(table_.size()) + " of at most " + std::to_string(kMostPages),
        "use larger pages"};
  const std::uint64_t before = table_.size();
  const auto gone = static_cast<std::uint64_t>(std::count(kinds.begin(), kinds.end(), left));
  counts_.expect(pages.size(), before + 1);
  for (std::size_t i = 0; i < pages.size();) {
    counts_.expect(0, table_.size() + 4096);
    if (kinds[i] != left) reach(moments[i] >> kLookupBits);
    PathRun state{
        bits_.cursor(), table_, table_.places(), lookups_.data(), counts_.counts(),
        held_,          first_, origin_,         entry_,          counts_.room() - table_.size()};
    i = run_best(&state, {pages, kinds, moments}, i);
    bits_.put(state.bits);
    held_ = state.held;
    entry_ = state.entry;
  }
  counts_.add_totals(pages.size() - gone, table_.size() - before, table_.size());
  return Done{};
}

void PathStack::reach(std::uint64_t entry) {
  entry_ = std::max(entry, entry_);
  const auto end = [&] { return (entry_ - first_ + origin_ + 1) * kGroup; };
  if (end() > bits_.cursor().end) renumber();
  RecencyBits::Cursor bits = bits_.cursor();
  if (end() > bits.next) bits.pass(static_cast<std::uint32_t>(end()));
  bits_.put(bits);
}

// What was used last before the recent entries moves together, in its order.
void PathStack::renumber() {
  const RecencyBits::Cursor& was = bits_.cursor();
  const std::uint64_t recent = std::min(entry_ - first_, recent_);
  const std::uint64_t first = entry_ - recent;
  const auto cut = static_cast<std::uint32_t>(
      std::min<std::uint64_t>((first - first_ + origin_) * kGroup, was.next));
  const std::uint64_t origin = 2 + was.upto(cut - 1) / kGroup;
  std::uint64_t places = was.end;
  while (places < 2 * (origin + recent + 1) * kGroup) places *= 2;

  RecencyBits fresh(static_cast<std::uint32_t>(places));
  RecencyBits::Cursor bits = fresh.cursor();
  LargeArray<std::uint16_t> lookups(places);
  for (PageTable::Entry& entry : table_.entries()) {
    const std::uint32_t place = entry.value;
    if (place <= kHeld) continue;
    const bool packed = place < cut;
    entry.value = packed ? kGroup - 1 + was.upto(place | (kGroup - 1)) -
                               after_in_group(was, lookups_.data(), place)
                         : static_cast<std::uint32_t>(place - cut + origin * kGroup);
    lookups[entry.value] =
        packed ? static_cast<std::uint16_t>(entry.value % kGroup) : lookups_[place];
    bits.words[entry.value / 64] |= std::uint64_t{1} << (entry.value % 64);
    ++bits.live;
  }
  fresh.put(bits);
  bits_ = std::move(fresh);
  lookups_ = std::move(lookups);
  first_ = first;
  origin_ = origin;
}

}  // namespace stallscope::stack
