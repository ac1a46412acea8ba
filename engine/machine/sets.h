// SPDX-License-Identifier: Apache-2.0
// The tags of one cache or TLB, and how a replacement policy works on them.
//
// A tag is a line number shifted left by two, with two flags below. There are two layouts. In a
// Queue the order of a set's tags is the policy's whole state (first: last to be thrown out), so
// a lookup and the reordering are one pass over one or two lines of the host's cache. In Places a
// line stays in its way, and the policy keeps one word of state a set.
#pragma once

#include <cstdint>

namespace stallscope::machine {

constexpr std::uint64_t kDirty = 1;
constexpr std::uint64_t kPrefetched = 2;  // brought by a prefetcher, not accessed since
constexpr std::uint64_t kFlags = 3;
// No line has this tag: lines are at least 8 bytes, so the top bit of a tag is 0.
constexpr std::uint64_t kEmpty = ~std::uint64_t{0};

constexpr std::uint64_t key_of(std::uint64_t line) { return line << 2; }
constexpr std::uint64_t line_of(std::uint64_t tag) { return tag >> 2; }
constexpr bool matches(std::uint64_t tag, std::uint64_t key) { return (tag ^ key) <= kFlags; }

// What policies work on. Owned by a Level.
struct Sets {
  std::uint64_t* tags = nullptr;   // stride words a set, one set after the other
  std::uint64_t* state = nullptr;  // Places: one word a set
  std::uint32_t ways = 0;
  std::uint32_t stride = 0;    // words from one set to the next; those past the ways stay kEmpty
  std::uint64_t all_ways = 0;  // a bit for each way, up to 64
  std::uint64_t random = 0;    // state of the generator of random replacement
};

// Sets of more than four ways begin at a line of the host's cache, as far as that is cheap.
constexpr std::uint32_t stride_of(std::uint32_t ways) {
  if (ways <= 2 || ways > 64) return ways;
  if (ways <= 4) return 4;
  return ways <= 32 ? (ways + 7) / 8 * 8 : 64;
}

struct Touched {
  std::uint64_t tag;  // hit: the line's tag before; miss: the victim's, or kEmpty
  bool hit;
};

// Every operation takes the set's index and the line's key.
struct SetOperations {
  // An access: a hit refreshes the line, adds `flags` and takes kPrefetched away; a miss fills.
  Touched (*touch)(Sets&, std::uint64_t set, std::uint64_t key, std::uint64_t flags);
  // An access that does not fill on a miss (its tag is then kEmpty).
  Touched (*look)(Sets&, std::uint64_t set, std::uint64_t key, std::uint64_t flags);
  // Takes the line out; its tag, or kEmpty when it is not there.
  std::uint64_t (*remove)(Sets&, std::uint64_t set, std::uint64_t key);
  // Adds `flags` without refreshing; whether the line is there.
  bool (*mark)(Sets&, std::uint64_t set, std::uint64_t key, std::uint64_t flags);
};

template <typename Policy, unsigned Ways>
struct Queue {
  static std::uint64_t* begin(Sets& s, std::uint64_t set) {
    return s.tags + set * stride_of(ways(s));
  }
  static constexpr std::uint32_t ways(const Sets& s) { return Ways ? Ways : s.ways; }

  // Looks for the key and moves every tag before it back by one, in the same pass; what fell out
  // at the end, or the match.
  static Touched shift(std::uint64_t* tags, std::uint32_t ways, std::uint64_t key) {
    std::uint64_t carried = tags[0];
    if (matches(carried, key)) return {carried, true};
    for (std::uint32_t i = 1; i < ways; ++i) {
      const std::uint64_t current = tags[i];
      tags[i] = carried;
      if (matches(current, key)) return {current, true};
      carried = current;
    }
    return {carried, false};
  }

  static std::uint32_t find(const std::uint64_t* tags, std::uint32_t ways, std::uint64_t key) {
    std::uint32_t i = 0;
    while (i < ways && !matches(tags[i], key)) ++i;
    return i;
  }

  static Touched touch(Sets& s, std::uint64_t set, std::uint64_t key, std::uint64_t flags) {
    std::uint64_t* tags = begin(s, set);
    if constexpr (!Policy::kHitsRefresh) {
      const Touched found = look(s, set, key, flags);
      if (found.hit) return found;
    }
    const Touched found = shift(tags, ways(s), key);
    tags[0] = found.hit ? (found.tag | flags) & ~kPrefetched : key | flags;
    return found;
  }

  static Touched look(Sets& s, std::uint64_t set, std::uint64_t key, std::uint64_t flags) {
    std::uint64_t* tags = begin(s, set);
    const std::uint32_t way = find(tags, ways(s), key);
    if (way == ways(s)) return {kEmpty, false};
    const std::uint64_t before = tags[way];
    if constexpr (Policy::kHitsRefresh) {
      for (std::uint32_t i = way; i > 0; --i) tags[i] = tags[i - 1];
      tags[0] = (before | flags) & ~kPrefetched;
    } else {
      tags[way] = (before | flags) & ~kPrefetched;
    }
    return {before, true};
  }

  static std::uint64_t remove(Sets& s, std::uint64_t set, std::uint64_t key) {
    std::uint64_t* tags = begin(s, set);
    const std::uint32_t way = find(tags, ways(s), key);
    if (way == ways(s)) return kEmpty;
    const std::uint64_t tag = tags[way];
    // Empty places stay at the end, where the next fill takes them first.
    for (std::uint32_t i = way; i + 1 < ways(s); ++i) tags[i] = tags[i + 1];
    tags[ways(s) - 1] = kEmpty;
    return tag;
  }

  static bool mark(Sets& s, std::uint64_t set, std::uint64_t key, std::uint64_t flags) {
    std::uint64_t* tags = begin(s, set);
    const std::uint32_t way = find(tags, ways(s), key);
    if (way == ways(s)) return false;
    tags[way] |= flags;
    return true;
  }
};

// A policy of this layout has hit(state, way, ways), fill(state, way, ways) and
// victim(sets, state, ways), called for a full set only.
template <typename Policy, unsigned Ways>
struct Places {
  static std::uint64_t* begin(Sets& s, std::uint64_t set) {
    return s.tags + set * stride_of(ways(s));
  }
  static constexpr std::uint32_t ways(const Sets& s) { return Ways ? Ways : s.ways; }

  static std::uint32_t find(const std::uint64_t* tags, std::uint32_t ways, std::uint64_t key) {
    std::uint32_t i = 0;
    while (i < ways && !matches(tags[i], key)) ++i;
    return i;
  }

  static Touched look(Sets& s, std::uint64_t set, std::uint64_t key, std::uint64_t flags) {
    std::uint64_t* tags = begin(s, set);
    const std::uint32_t way = find(tags, ways(s), key);
    if (way == ways(s)) return {kEmpty, false};
    const std::uint64_t before = tags[way];
    tags[way] = (before | flags) & ~kPrefetched;
    Policy::hit(s.state[set], way, ways(s));
    return {before, true};
  }

  static Touched touch(Sets& s, std::uint64_t set, std::uint64_t key, std::uint64_t flags) {
    const Touched found = look(s, set, key, flags);
    if (found.hit) return found;
    std::uint64_t* tags = begin(s, set);
    std::uint32_t way = 0;
    while (way < ways(s) && tags[way] != kEmpty) ++way;
    if (way == ways(s)) way = Policy::victim(s, s.state[set], ways(s));
    const std::uint64_t victim = tags[way];
    tags[way] = key | flags;
    Policy::fill(s.state[set], way, ways(s));
    return {victim, false};
  }

  static std::uint64_t remove(Sets& s, std::uint64_t set, std::uint64_t key) {
    std::uint64_t* tags = begin(s, set);
    const std::uint32_t way = find(tags, ways(s), key);
    if (way == ways(s)) return kEmpty;
    const std::uint64_t tag = tags[way];
    tags[way] = kEmpty;
    return tag;
  }

  static bool mark(Sets& s, std::uint64_t set, std::uint64_t key, std::uint64_t flags) {
    std::uint64_t* tags = begin(s, set);
    const std::uint32_t way = find(tags, ways(s), key);
    if (way == ways(s)) return false;
    tags[way] |= flags;
    return true;
  }
};

}  // namespace stallscope::machine
