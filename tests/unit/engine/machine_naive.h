// SPDX-License-Identifier: Apache-2.0
// The machine once more, written to be obviously right instead of fast: sets are vectors of named
// fields, every policy is spelt out, nothing is remembered between accesses.
#pragma once

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "machine/config.h"
#include "machine/machine.h"
#include "machine/policies/random.h"

namespace stallscope::machine::naive {

struct Line {
  std::uint64_t number;
  bool dirty = false;
  std::uint64_t filled = 0;  // when
  std::uint64_t used = 0;    // when
  unsigned interval = 0;     // srrip
};

// One cache: lines by (set, way).
class Cache {
 public:
  Cache(const CacheConfig& config, std::uint64_t random) : config_(config), random_(random) {
    sets_.resize(config.size / config.line / config.ways);
    turns_.resize(sets_.size(), std::vector<bool>(config.ways));
    for (auto& set : sets_) set.assign(config.ways, Line{kNone});
  }

  static constexpr std::uint64_t kNone = ~0ULL;

  Line* find(std::uint64_t number) {
    for (Line& line : sets_[number % sets_.size()])
      if (line.number == number) return &line;
    return nullptr;
  }

  void use(Line& line) {
    line.used = ++now_;
    line.interval = 0;
    turn_away(line);
  }

  // The line thrown out; its number is kNone when a way was empty.
  Line fill(std::uint64_t number, bool dirty) {
    auto& set = sets_[number % sets_.size()];
    Line& line = set[choose(number % sets_.size())];
    const Line victim = line;
    line = {number, dirty, ++now_, now_, 2};
    turn_away(line);
    return victim;
  }

  std::set<std::uint64_t> lines() const {
    std::set<std::uint64_t> all;
    for (const auto& set : sets_)
      for (const Line& line : set)
        if (line.number != kNone) all.insert(line.number * config_.line);
    return all;
  }

  const CacheConfig& config() const { return config_; }

 private:
  std::size_t choose(std::uint64_t index) {
    auto& set = sets_[index];
    for (std::size_t way = 0; way < set.size(); ++way)
      if (set[way].number == kNone) return way;
    const auto first = [&](auto less) {
      return static_cast<std::size_t>(std::min_element(set.begin(), set.end(), less) - set.begin());
    };
    if (config_.policy == "lru")
      return first([](const Line& a, const Line& b) { return a.used < b.used; });
    if (config_.policy == "fifo")
      return first([](const Line& a, const Line& b) { return a.filled < b.filled; });
    if (config_.policy == "random") return (Random::next(random_) >> 32) * set.size() >> 32;
    if (config_.policy == "plru") return follow_turns(index, 0, set.size());
    while (true) {  // srrip
      for (std::size_t way = 0; way < set.size(); ++way)
        if (set[way].interval == 3) return way;
      for (Line& line : set) ++line.interval;
    }
  }

  // plru: the node between two halves is named by the first way of its right half.
  std::size_t follow_turns(std::uint64_t index, std::size_t begin, std::size_t end) {
    if (end - begin == 1) return begin;
    const std::size_t middle = (begin + end) / 2;
    return turns_[index][middle] ? follow_turns(index, middle, end)
                                 : follow_turns(index, begin, middle);
  }

  void turn_away(const Line& line) {
    const std::uint64_t index = line.number % sets_.size();
    const auto way = static_cast<std::size_t>(&line - sets_[index].data());
    std::size_t begin = 0, end = config_.ways;
    while (end - begin > 1 && config_.policy == "plru") {
      const std::size_t middle = (begin + end) / 2;
      turns_[index][middle] = way < middle;
      (way < middle ? end : begin) = middle;
    }
  }

  CacheConfig config_;
  std::uint64_t random_;
  std::uint64_t now_ = 0;
  std::vector<std::vector<Line>> sets_;
  std::vector<std::vector<bool>> turns_;
};

struct Eviction {
  std::uint32_t level;
  std::uint64_t line, victim;
  bool dirty;
  auto operator<=>(const Eviction&) const = default;
};

// Caches that all hold data. Line sizes, policies, write rules, inclusion; no TLB, no prefetcher.
class Hierarchy {
 public:
  explicit Hierarchy(const MachineConfig& config) {
    for (std::size_t i = 0; i < config.caches.size(); ++i) {
      caches.emplace_back(config.caches[i], (config.seed + i + 1) * 0x9e3779b97f4a7c15ULL | 1);
      exclusive_ |= config.caches[i].inclusion == Inclusion::exclusive;
    }
    accesses.resize(caches.size());
    misses.resize(caches.size());
  }

  void access(std::uint64_t address, std::uint32_t size, AccessKind kind) {
    accessed_.clear();
    missed_.clear();
    const std::uint64_t last = address + size - 1;
    if (!exclusive_) {
      go(address, last, kind);
    } else {
      const std::uint64_t line = caches[0].config().line;
      for (std::uint64_t n = address / line; n <= last / line; ++n) go(n * line, n * line, kind);
    }
    for (const std::size_t level : accessed_) ++accesses[level];
    for (const std::size_t level : missed_) ++misses[level];
  }

  std::vector<Cache> caches;
  std::vector<std::uint64_t> accesses, misses;
  std::vector<Eviction> events;  // every missing line

 private:
  void go(std::uint64_t first, std::uint64_t last, AccessKind kind) {
    bool found = false, writing = writes(kind);
    Cache* holder = nullptr;
    for (std::size_t level = 0; level < caches.size() && (!found || writing); ++level) {
      Cache& cache = caches[level];
      const CacheConfig& config = cache.config();
      const bool exclusive = config.inclusion == Inclusion::exclusive;
      const bool allocates =
          !exclusive && (config.write_allocate || kind != AccessKind::store || !writing);
      accessed_.insert(level);
      bool hit = true;
      for (std::uint64_t n = first / config.line; n <= last / config.line; ++n) {
        if (Line* line = cache.find(n)) {
          cache.use(*line);
          line->dirty |= writing && config.write_back;
          if (exclusive && holder) {
            holder->find(n)->dirty |= line->dirty;
            line->number = Cache::kNone;
          }
          continue;
        }
        hit = false;
        missed_.insert(level);
        if (!allocates) {
          events.push_back({static_cast<std::uint32_t>(level), n * config.line, kNoVictim, false});
          if (!exclusive) holder = nullptr;
          continue;
        }
        throw_out(level, n, cache.fill(n, writing && config.write_back));
        holder = &cache;
      }
      settle_moving(level);
      if (writing && config.write_back && (hit || allocates)) writing = false;
      found |= hit;
    }
    for (std::size_t level = 0; level < caches.size(); ++level) settle_moving(level);
  }

  void throw_out(std::size_t level, std::uint64_t number, const Line& victim) {
    const std::uint64_t size = caches[level].config().line;
    Eviction event{static_cast<std::uint32_t>(level), number * size, kNoVictim, false};
    if (victim.number != Cache::kNone) {
      bool dirty = victim.dirty;
      if (caches[level].config().inclusion == Inclusion::inclusive)
        for (std::size_t inner = 0; inner < level; ++inner)
          dirty |= forget(caches[inner], victim.number * size, size);
      event.victim = victim.number * size;
      event.dirty = dirty;
      leave(level + 1, victim.number, dirty, size);
    }
    events.push_back(event);
  }

  static bool forget(Cache& cache, std::uint64_t address, std::uint64_t size) {
    bool dirty = false;
    for (std::uint64_t a = address; a < address + size; a += cache.config().line)
      if (Line* line = cache.find(a / cache.config().line)) {
        dirty |= line->dirty;
        line->number = Cache::kNone;
      }
    return dirty;
  }

  void leave(std::size_t level, std::uint64_t number, bool dirty, std::uint64_t size) {
    if (level < caches.size() && caches[level].config().inclusion == Inclusion::exclusive) {
      moving_[level] = Line{number, dirty};
      return;
    }
    for (; dirty && level < caches.size(); ++level) {
      Cache& cache = caches[level];
      Line* line = cache.find(number * size / cache.config().line);
      if (!line || !cache.config().write_back) continue;
      line->dirty = true;
      return;
    }
  }

  // What the level inside threw out goes into this exclusive one after the lookup there.
  void settle_moving(std::size_t level) {
    const auto moving = moving_.find(level);
    if (moving == moving_.end()) return;
    const Line moved = moving->second;
    moving_.erase(moving);
    Cache& cache = caches[level];
    if (Line* line = cache.find(moved.number)) {
      cache.use(*line);
      line->dirty |= moved.dirty;
      return;
    }
    const Line victim = cache.fill(moved.number, moved.dirty);
    if (victim.number != Cache::kNone) throw_out(level, moved.number, victim);
  }

  bool exclusive_ = false;
  std::set<std::size_t> accessed_, missed_;
  std::map<std::size_t, Line> moving_;
};

}  // namespace stallscope::machine::naive
