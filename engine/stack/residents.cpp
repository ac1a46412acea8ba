// SPDX-License-Identifier: Apache-2.0
#include "stack/residents.h"

#include <algorithm>
#include <bit>
#include <numeric>
#include <utility>

namespace stallscope::stack {
namespace {

constexpr std::uint64_t kMostTops = 4096;

std::uint32_t after(std::uint32_t at, std::uint32_t ways) { return at + 1 == ways ? 0 : at + 1; }

}  // namespace

Residents::Residents(const std::vector<Shape>& shapes)
    : all_(shapes.size() == kMost ? ~std::uint64_t{0} : (std::uint64_t{1} << shapes.size()) - 1) {
  std::uint64_t common = 0;
  for (const Shape& shape : shapes) {
    const std::uint64_t sets = shape.sets;
    common = std::gcd(common, sets);
    caches_.push_back({sets, std::has_single_bit(sets) ? sets - 1 : 0, shape.ways, 0,
                       std::vector<Entry>(sets * shape.ways, Entry{0, kNobody}),
                       std::vector<std::uint32_t>(sets)});
  }
  mask_ = std::min(common & -common, kMostTops) - 1;  // a power of two that divides all
  tops_.assign(mask_ + 1, kNoLine);
}

std::uint64_t Residents::use(std::uint64_t line, std::uint64_t by) {
  const std::uint32_t index = index_of(line);
  note(index, by);
  const std::uint64_t missed = by & ~held_by_[index];
  held_by_[index] |= by;
  for (std::uint64_t left = missed; left; left &= left - 1)
    bring_in(line, index, static_cast<unsigned>(std::countr_zero(left)));
  return missed;
}

inline void Residents::note(std::uint32_t line, std::uint64_t by) {
  Use& use = uses_[line];
  if ((use.by & ~by) || use.older != kNobody) put_behind(line, by);
  use.last = ++now_;
  use.by = by;
}

// What was the last use for others stays so; lists are as long as there are different ones.
void Residents::put_behind(std::uint32_t line, std::uint64_t by) {
  for (std::uint32_t* link = &uses_[line].older; *link != kNobody;) {
    Use& use = older_[*link];
    if (use.by &= ~by) {
      link = &use.older;
      continue;
    }
    const std::uint32_t gone = std::exchange(*link, use.older);
    older_[gone].older = std::exchange(free_use_, gone);
  }
  const std::uint64_t others = uses_[line].by & ~by;
  if (!others) return;
  std::uint32_t place = free_use_;
  if (place == kNobody) {
    place = static_cast<std::uint32_t>(older_.size());
    older_.emplace_back();
  } else {
    free_use_ = older_[place].older;
  }
  older_[place] = {uses_[line].last, others, uses_[line].older};
  uses_[line].older = place;
}

inline std::uint64_t Residents::last_use(std::uint32_t line, unsigned cache) const {
  const Use* use = &uses_[line];
  while (!(use->by >> cache & 1)) use = &older_[use->older];
  return use->last;
}

std::uint32_t Residents::index_of(std::uint64_t line) {
  const auto [index, fresh] = indices_.try_emplace(line);
  if (!fresh) return *index;
  if (free_.empty()) {
    free_.push_back(static_cast<std::uint32_t>(uses_.size()));
    uses_.push_back({0, 0, kNobody});
    held_by_.push_back(0);
    numbers_.push_back(0);
  }
  *index = free_.back();
  free_.pop_back();
  numbers_[*index] = line;
  return *index;
}

inline void Residents::bring_in(std::uint64_t number, std::uint32_t line, unsigned which) {
  Cache& cache = caches_[which];
  const std::uint32_t ways = cache.ways;
  const std::uint64_t set = cache.mask ? number & cache.mask : number % cache.sets;
  Entry* const ring = cache.entries.data() + set * ways;
  std::uint32_t first = cache.first[set];
  while (ring[first].line != kNobody) {
    const Entry front = ring[first];
    const std::uint64_t last = last_use(front.line, which);
    if (last == front.last) {
      ++cache.evictions;
      release(front.line, which);
      break;
    }
    put_back(ring, first, ways, {last, front.line});
    first = after(first, ways);
  }
  ring[first] = {now_, line};
  cache.first[set] = after(first, ways);
}

// Who stood in front was used since: it goes behind all that were used earlier. Its place becomes
// the last of the ring.
inline void Residents::put_back(Entry* ring, std::uint32_t first, std::uint32_t ways, Entry entry) {
  Entry* to = ring + first;
  for (; to != ring && to[-1].last > entry.last; --to) *to = to[-1];
  Entry* const end = ring + ways - 1;
  if (to == ring && end != ring + first && end->last > entry.last) {
    *to = *end;
    for (to = end; to - 1 != ring + first && to[-1].last > entry.last; --to) *to = to[-1];
  }
  *to = entry;
}

inline void Residents::release(std::uint32_t line, unsigned cache) {
  if (held_by_[line] &= ~(std::uint64_t{1} << cache)) return;
  put_behind(line, ~std::uint64_t{0});
  uses_[line].by = 0;
  indices_.erase(numbers_[line]);
  free_.push_back(line);
}

}  // namespace stallscope::stack
