// SPDX-License-Identifier: Apache-2.0
#include "probes/residency.h"

#include <bit>

namespace stallscope::probes {

using machine::AccessKind;
using machine::CacheConfig;

Residency::Residency(const machine::MachineConfig& config, Buckets& buckets) : buckets_(buckets) {
  std::int32_t last_data = -1, last_fetch = -1;
  for (const CacheConfig& cache : config.caches) {
    const auto index = static_cast<std::int32_t>(levels_.size());
    Level level{};
    level.index = static_cast<std::uint32_t>(index);
    level.bits = static_cast<std::uint32_t>(std::countr_zero(cache.line));
    level.inclusive = cache.inclusion == machine::Inclusion::inclusive;
    level.exclusive = cache.inclusion == machine::Inclusion::exclusive;
    for (std::int32_t i = 0; i < index; ++i) {
      const machine::Holds holds = config.caches[static_cast<std::size_t>(i)].holds;
      if ((on_data_path(cache.holds) && on_data_path(holds)) ||
          (on_fetch_path(cache.holds) && on_fetch_path(holds)))
        level.inside.push_back(static_cast<std::uint32_t>(i));
    }
    levels_.push_back(std::move(level));
    const auto link = [&](std::int32_t& last, std::int32_t Level::*next) {
      if (last >= 0) levels_[static_cast<std::size_t>(last)].*next = index;
      last = index;
    };
    if (on_data_path(cache.holds)) link(last_data, &Level::next_for_data);
    if (on_fetch_path(cache.holds)) link(last_fetch, &Level::next_for_fetches);
  }
  buckets_.watch(this);
}

Residency::Level* Residency::next_of(const Level& level, AccessKind kind) {
  const std::int32_t next =
      kind == AccessKind::fetch ? level.next_for_fetches : level.next_for_data;
  return next < 0 ? nullptr : &levels_[static_cast<std::size_t>(next)];
}

void Residency::on_miss(const machine::Miss& miss) {
  Level& level = levels_[miss.level];
  if (miss.victim != machine::kNoVictim) throw_out(level, miss);
  if (miss.filled) come(level, miss.line_address);
  if (miss.cause == machine::Cause::moved) return;
  if (!level.exclusive) filled_ = miss.filled;
  Level* const next = next_of(level, miss.kind);
  if (next && next->exclusive && filled_) go(*next, miss.line_address);
}

void Residency::throw_out(Level& level, const machine::Miss& miss) {
  go(level, miss.victim);
  if (level.inclusive)
    for (const std::uint32_t i : level.inside) {
      Level& inner = levels_[i];
      const std::uint64_t end = miss.victim + (std::uint64_t{1} << level.bits);
      for (std::uint64_t at = miss.victim; at != end; at += std::uint64_t{1} << inner.bits)
        go(inner, at);
    }
  if (Level* const next = next_of(level, miss.kind); next && next->exclusive)
    come(*next, miss.victim);
}

void Residency::come(Level& level, std::uint64_t address) {
  const std::uint64_t line = address >> level.bits;
  if (level.lines.add(line)) count_line(level, line, 1);
}

void Residency::go(Level& level, std::uint64_t address) {
  const std::uint64_t line = address >> level.bits;
  if (level.lines.remove(line)) count_line(level, line, -1);
}

void Residency::count_line(const Level& level, std::uint64_t line, std::int64_t sign) {
  const std::uint64_t start = line << level.bits;
  const std::uint32_t size = 1u << level.bits;
  sums_.change(number_of(buckets_.find_line(start, size), 2 * level.index), sign);
  buckets_.split(start, size, [&](BucketId bucket, std::uint64_t bytes) {
    sums_.change(number_of(bucket, 2 * level.index + 1), sign * static_cast<std::int64_t>(bytes));
  });
}

// What lies in a range counts no longer, or again.
void Residency::count(std::uint64_t start, std::uint64_t size, std::int64_t sign) {
  buckets_.split(start, size, [&](BucketId bucket, std::uint64_t bytes) {
    if (bucket != Buckets::kUnknown)
      sums_.change(number_of(bucket, 2 * levels_.size()), sign * static_cast<std::int64_t>(bytes));
  });
  for (const Level& level : levels_)
    level.lines.for_each_in(start >> level.bits, (start + size - 1) >> level.bits,
                            [&](std::uint64_t line) { count_line(level, line, sign); });
}

void Residency::fill(ResidentTable& table) {
  for (std::uint32_t region = 0; region < sums_.regions(); ++region)
    for (std::uint32_t level = 0; level < levels_.size(); ++level)
      for (BucketId bucket = 0; bucket < buckets_.count(); ++bucket) {
        const double lines = sums_.sum(region, number_of(bucket, 2 * level));
        const double bytes = sums_.sum(region, number_of(bucket, 2 * level + 1));
        const double live = sums_.sum(region, number_of(bucket, 2 * levels_.size()));
        if (lines > 0 || bytes > 0)
          table.append({static_cast<std::uint8_t>(level), region, bucket, lines, bytes, live});
      }
}

}  // namespace stallscope::probes
