// SPDX-License-Identifier: Apache-2.0
#include "probes/classify.h"

#include <bit>

namespace stallscope::probes {

using machine::AccessKind;

Classify::Classify(const machine::MachineConfig& config, Buckets& buckets)
    : buckets_(buckets), caches_(static_cast<std::uint32_t>(config.caches.size())) {
  const auto add = [&](std::uint64_t line, std::uint64_t lines) {
    levels_.push_back(std::make_unique<Level>(Level{
        .number = static_cast<std::uint32_t>(levels_.size()),
        .bits = static_cast<std::uint32_t>(std::countr_zero(line)),
        .lru = FullLru(static_cast<std::uint32_t>(lines)),
    }));
    return levels_.back().get();
  };
  for (const machine::CacheConfig& cache : config.caches) {
    Level* level = add(cache.line, cache.size / cache.line);
    level->write_allocate = cache.write_allocate;
    level->write_back = cache.write_back;
    level->exclusive = cache.inclusion == machine::Inclusion::exclusive;
    by_line_ |= level->exclusive;
    if (machine::on_data_path(cache.holds)) data_.caches.push_back(level);
    if (machine::on_fetch_path(cache.holds)) fetch_.caches.push_back(level);
  }
  for (const machine::TlbConfig& tlb : config.tlbs) {
    Level* level = add(tlb.page, tlb.entries);
    if (machine::on_data_path(tlb.holds)) data_.tlbs.push_back(level);
    if (machine::on_fetch_path(tlb.holds)) fetch_.tlbs.push_back(level);
  }
}

void Classify::take(Path& path, std::uint64_t address, std::uint32_t size, AccessKind kind,
                    std::uint32_t operation) {
  std::uint64_t last = address + size - 1;
  if (last < address) last = ~std::uint64_t{0};
  translate(path, address, last);
  if (!by_line_ || path.caches.empty()) {
    walk(path, address, last, kind);
  } else {
    const std::uint32_t bits = path.caches.front()->bits;
    for (std::uint64_t line = address >> bits; line <= last >> bits; ++line)
      walk(path, line << bits, line << bits, kind);
  }
  missing_.clear();
  if (verdicts_.empty()) return;
  const BucketId bucket = operation == kNone32 ? kNoBucket : buckets_.find(address);
  Kinds& kinds = tally_.at(bucket, operation);
  for (const Verdict& verdict : verdicts_) ++kinds.counts[verdict.level][verdict.kind];
  verdicts_.clear();
}

// The way of the machine's own walk: outwards until a level has it and has taken the store.
void Classify::walk(Path& path, std::uint64_t first, std::uint64_t last, AccessKind kind) {
  bool writing = machine::writes(kind);
  bool found = false;
  for (std::size_t depth = 0; depth < path.caches.size() && (!found || writing); ++depth) {
    Level& level = *path.caches[depth];
    const bool allocates = level.write_allocate || kind != AccessKind::store || !writing;
    const bool hit = look_up(level, first, last, allocates);
    if (writing && level.write_back && (hit || (allocates && !level.exclusive))) writing = false;
    found |= hit;
  }
}

void Classify::translate(Path& path, std::uint64_t first, std::uint64_t last) {
  for (Level* tlb : path.tlbs)
    if (look_up(*tlb, first, last, true)) return;
}

// Whether the real level had every line of the range; its missing ones are judged.
bool Classify::look_up(Level& level, std::uint64_t first, std::uint64_t last, bool fill) {
  bool hit = true;
  for (std::uint64_t line = first >> level.bits; line <= last >> level.bits; ++line) {
    const FullLru::Found found = level.lru.look_up(line, fill);
    for (Missing& missing : missing_) {
      if (missing.level != level.number || missing.address >> level.bits != line) continue;
      hit = false;
      missing.level = kJudged;  // a neighbour that goes its own way may come by here too
      if (missing.counted)
        verdicts_.push_back({level.number, found == FullLru::Found::never  ? 0u
                                           : found == FullLru::Found::lost ? 1u
                                                                           : 2u});
    }
  }
  return hit;
}

void Classify::fill(MissClassTable& table) const {
  tally_.for_each(
      [&](std::uint32_t region, BucketId bucket, std::uint32_t operation, const Kinds& kinds) {
        for (std::uint32_t level = 0; level < levels_.size(); ++level) {
          const auto& [cold, capacity, conflict] = kinds.counts[level];
          if (cold || capacity || conflict)
            table.append({static_cast<std::uint8_t>(level), region, bucket, operation, cold,
                          capacity, conflict});
        }
      });
}

}  // namespace stallscope::probes
