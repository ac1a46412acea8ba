// SPDX-License-Identifier: Apache-2.0
// A fully associative cache of a fixed number of lines under LRU, which also knows every line that
// it was ever asked for. One look-up takes a few steps whatever the number of lines, and nothing is
// allocated for it but the memory of what was seen, which grows by doubling.
#pragma once

#include <bit>
#include <cstdint>
#include <utility>
#include <vector>

namespace stallscope::probes {

// The lines ever asked for: a bit each, in groups of 64 neighbours, in an open hash table.
class SeenLines {
 public:
  SeenLines() : groups_(kFirst) {}

  // Whether the line is new.
  bool add(std::uint64_t line) {
    Group& group = find(line >> kGroupBits);
    const std::uint64_t bit = std::uint64_t{1} << (line & (64 - 1));
    if (group.lines & bit) return false;
    const bool fresh = group.lines == 0;
    group.key = line >> kGroupBits;
    group.lines |= bit;
    if (fresh && ++used_ * 2 > groups_.size()) grow();
    return true;
  }

 private:
  static constexpr unsigned kGroupBits = 6;
  static constexpr std::size_t kFirst = 1024;
  struct Group {
    std::uint64_t key = 0;
    std::uint64_t lines = 0;  // none: a free place
  };

  Group& find(std::uint64_t key) {
    const std::size_t mask = groups_.size() - 1;
    std::size_t at = (key * 0x9e3779b97f4a7c15ULL >> 20) & mask;
    while (groups_[at].lines && groups_[at].key != key) at = (at + 1) & mask;
    return groups_[at];
  }
  void grow() {
    std::vector<Group> old(groups_.size() * 2);
    old.swap(groups_);
    for (const Group& group : old)
      if (group.lines) find(group.key) = group;
  }

  std::vector<Group> groups_;  // a power of two of them, at most half of them used
  std::size_t used_ = 0;
};

class FullLru {
 public:
  enum class Found : std::uint8_t {
    here,   // the cache has it
    lost,   // it was asked for before, but is not here
    never,  // it was never asked for before
  };

  // At least one line.
  explicit FullLru(std::uint32_t lines)
      : nodes_(lines),
        slots_(std::bit_ceil(std::uint64_t{lines} * 2)),
        shift_(64 - std::countr_zero(slots_.size())) {}

  // An access. The line is the most recent one afterwards, unless it was missing and `fill` is
  // false: then it only counts as asked for.
  Found look_up(std::uint64_t line, bool fill) {
    if (line == newest_line_) return Found::here;
    const std::size_t slot = find(line);
    if (slots_[slot]) {
      make_newest(slots_[slot] - 1);
      return Found::here;
    }
    const Found found = seen_.add(line) ? Found::never : Found::lost;
    if (fill) insert(line, slot);
    return found;
  }

 private:
  static constexpr std::uint32_t kNone = 0xffffffff;
  struct Node {
    std::uint64_t line = 0;
    std::uint32_t newer = kNone;
    std::uint32_t older = kNone;
  };

  std::size_t home(std::uint64_t line) const { return line * 0x9e3779b97f4a7c15ULL >> shift_; }
  // Where the line is, or where it would go.
  std::size_t find(std::uint64_t line) const {
    const std::size_t mask = slots_.size() - 1;
    std::size_t at = home(line);
    while (slots_[at] && nodes_[slots_[at] - 1].line != line) at = (at + 1) & mask;
    return at;
  }
  void unlink(std::uint32_t node) {
    const Node& n = nodes_[node];
    (n.newer == kNone ? newest_ : nodes_[n.newer].older) = n.older;
    (n.older == kNone ? oldest_ : nodes_[n.older].newer) = n.newer;
  }
  void push(std::uint32_t node) {
    nodes_[node].newer = kNone;
    nodes_[node].older = newest_;
    (newest_ == kNone ? oldest_ : nodes_[newest_].newer) = node;
    newest_ = node;
    newest_line_ = nodes_[node].line;
  }
  void make_newest(std::uint32_t node) {
    unlink(node);
    push(node);
  }
  void insert(std::uint64_t line, std::size_t slot) {
    std::uint32_t node = used_;
    if (used_ < nodes_.size()) {
      ++used_;
    } else {
      node = oldest_;
      unlink(node);
      free_slot(find(nodes_[node].line));
      slot = find(line);  // others may have moved up
    }
    nodes_[node].line = line;
    slots_[slot] = node + 1;
    push(node);
  }
  // Those behind a freed place move up, so that no search ends early.
  void free_slot(std::size_t hole) {
    const std::size_t mask = slots_.size() - 1;
    for (std::size_t at = (hole + 1) & mask; slots_[at]; at = (at + 1) & mask) {
      const std::size_t wanted = home(nodes_[slots_[at] - 1].line);
      if (((at - wanted) & mask) < ((at - hole) & mask)) continue;
      slots_[hole] = slots_[at];
      hole = at;
    }
    slots_[hole] = 0;
  }

  std::uint64_t newest_line_ = ~std::uint64_t{0};  // no line has this number
  std::vector<Node> nodes_;
  std::vector<std::uint32_t> slots_;  // node + 1, or 0; at most half of them used
  int shift_;
  std::uint32_t used_ = 0;
  std::uint32_t newest_ = kNone;
  std::uint32_t oldest_ = kNone;
  SeenLines seen_;
};

}  // namespace stallscope::probes
