// SPDX-License-Identifier: Apache-2.0
#include "stack/lru_stack.h"

#include <algorithm>
#include <string>

namespace stallscope::stack {
namespace {

constexpr std::uint64_t kMostPages = std::uint64_t{1} << 29;
// The table's entry is asked for this many references ahead, its bits this many.
constexpr std::size_t kTableAhead = 24, kBitsAhead = 10;

struct Tables {
  PageTable& table;
  RecencyBits& bits;
  DistanceCounts& counts;
};

struct Nowhere {
  STALLSCOPE_INLINE void operator()(std::size_t, std::uint32_t) const {}
};
struct Column {
  std::uint32_t* to;
  STALLSCOPE_INLINE void operator()(std::size_t i, std::uint32_t distance) const {
    to[i] = distance;
  }
};

// Appends from `from` on, until the end or until there is no room for a new page, moment or
// distance. Returns how far it got.
template <typename Sink>
STALLSCOPE_INLINE std::size_t run(Tables t, std::span<const std::uint64_t> pages, std::size_t from,
                                  Sink sink) {
  const std::uint64_t* const page = pages.data();
  std::uint32_t* const counts = t.counts.counts();
  RecencyBits::Cursor bits = t.bits.cursor();
  PageTable::Places table = t.table.places();
  // At most one moment and one new page a reference.
  const std::size_t n = std::min<std::size_t>(
      pages.size(),
      from + std::min<std::uint64_t>(bits.end - bits.next, t.counts.room() - t.table.size()));
  for (std::size_t i = from; i < n; ++i) {
    if (i + kTableAhead < n) {
      table.prefetch(page[i + kTableAhead]);
      if (const std::uint32_t moment = table.peek(page[i + kBitsAhead])) bits.prefetch(moment);
    }
    PageTable::Entry* entry = table.probe(page[i]);
    if (entry->value == 0) [[unlikely]] {
      entry = t.table.find_or_add(page[i]);
      table = t.table.places();
      entry->value = bits.set_next();
      sink(i, kCold);
      continue;
    }
    const std::uint32_t distance = bits.after(entry->value);
    if (distance != 0) {
      bits.clear(entry->value);
      entry->value = bits.set_next();
    }
    ++counts[distance];
    sink(i, distance);
  }
  t.bits.put(bits);
  return n;
}

#if defined(__x86_64__)
template <typename Sink>
[[gnu::target("avx512f,avx512bw,avx512vl,avx512dq,bmi,bmi2,popcnt")]] std::size_t run_avx512(
    Tables t, std::span<const std::uint64_t> pages, std::size_t from, Sink sink) {
  return run(t, pages, from, sink);
}
template <typename Sink>
[[gnu::target("avx2,bmi,bmi2,popcnt")]] std::size_t run_avx2(Tables t,
                                                             std::span<const std::uint64_t> pages,
                                                             std::size_t from, Sink sink) {
  return run(t, pages, from, sink);
}
#endif
template <typename Sink>
std::size_t run_plain(Tables t, std::span<const std::uint64_t> pages, std::size_t from, Sink sink) {
  return run(t, pages, from, sink);
}

template <typename Sink>
auto best_run() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
      __builtin_cpu_supports("avx512dq"))
    return run_avx512<Sink>;
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi2")) return run_avx2<Sink>;
#endif
  return run_plain<Sink>;
}

}  // namespace

template <typename Sink>
Status LruStack::append_to(std::span<const std::uint64_t> pages, Sink sink) {
  static const auto run_best = best_run<Sink>();
  if (table_.size() + pages.size() > kMostPages && table_.size() > kMostPages / 2)
    return Error{
        "too many pages for an LRU stack",
        "it holds " + std::to_string(table_.size()) + " of at most " + std::to_string(kMostPages),
        "use a sampled curve or larger pages"};
  constexpr std::size_t kPiece = std::size_t{1} << 30;  // what counts take at a time
  for (std::size_t start = 0; start < pages.size(); start += kPiece) {
    const auto piece = pages.subspan(start, std::min(kPiece, pages.size() - start));
    const std::uint64_t before = table_.size();
    counts_.expect(piece.size(), before + 1);
    for (std::size_t i = 0; i < piece.size();) {
      if (bits_.full()) renumber();
      // With room for a good part of the batch, or it would go page by page.
      counts_.expect(0, table_.size() + 4096);
      i = run_best({table_, bits_, counts_}, piece, i, sink);
    }
    counts_.add_totals(piece.size(), table_.size() - before, table_.size());
    if constexpr (std::is_same_v<Sink, Column>) sink.to += piece.size();
  }
  return Done{};
}

Status LruStack::append(std::span<const std::uint64_t> pages) {
  return append_to(pages, Nowhere{});
}

Status LruStack::append(std::span<const std::uint64_t> pages, std::uint32_t* distances) {
  return append_to(pages, Column{distances});
}

void LruStack::renumber() {
  for (PageTable::Entry& entry : table_.entries())
    if (entry.value != 0) entry.value = bits_.renumbered(entry.value);
  bits_.renumber();
}

std::vector<std::uint64_t> LruStack::pages() const {
  std::vector<std::uint64_t> order(distinct());
  for (const PageTable::Entry& entry : table_.entries())
    if (entry.value != 0) order[bits_.after(entry.value)] = entry.page;
  return order;
}

}  // namespace stallscope::stack
