// SPDX-License-Identifier: Apache-2.0
#include "probes/regions.h"

#include <algorithm>

namespace stallscope::probes {

Regions::Regions() {
  names_.emplace_back();
  nodes_.push_back({kNone32, 0, 0, {}});
}

// Names past the last region that there is room for are all the same one.
std::uint32_t Regions::name_of(std::string_view text) {
  std::string key(text);
  if (auto at = by_text_.find(key); at != by_text_.end()) return at->second;
  if (names_.size() == kMaxRegions) return kNone32;
  const auto number = static_cast<std::uint32_t>(names_.size());
  names_.push_back(key);
  by_text_.emplace(std::move(key), number);
  return number;
}

std::uint32_t Regions::child_of(std::uint32_t parent, std::uint32_t name) {
  for (std::uint32_t node = parent; node != 0; node = nodes_[node].around)
    if (nodes_[node].name == name) {  // inside itself, perhaps with others in between
      ++nodes_[node].entered;
      return parent;
    }
  const std::uint64_t key = std::uint64_t{parent} << 32 | name;
  auto at = children_.find(key);
  if (at == children_.end()) {
    if (name == kNone32 || nodes_.size() == kMaxRegions) return parent;
    at = children_.emplace(key, static_cast<std::uint32_t>(nodes_.size())).first;
    nodes_.push_back({parent, name, 0, {}});
  }
  ++nodes_[at->second].entered;
  return at->second;
}

void Regions::begin(std::uint32_t thread, std::string_view name) {
  run(thread);
  std::vector<Open>& open = open_[thread];
  const std::uint32_t number = name_of(name);
  open.push_back({child_of(open.empty() ? 0 : open.back().node, number), number});
}

void Regions::end(std::uint32_t thread, std::string_view name) {
  run(thread);
  std::vector<Open>& open = open_[thread];
  const std::uint32_t number = name_of(name);
  const auto at =
      std::find_if(open.rbegin(), open.rend(), [&](const Open& one) { return one.name == number; });
  if (at != open.rend()) open.erase(at.base() - 1, open.end());
}

std::uint32_t Regions::current() const {
  const auto at = open_.find(thread_);
  return at == open_.end() || at->second.empty() ? 0 : at->second.back().node;
}

void Regions::charge(std::uint32_t region, const Done& all) {
  Done& done = nodes_[region].done;
  done.levels.resize(all.levels.size());
  charged_.levels.resize(all.levels.size());
  done.instructions += all.instructions - charged_.instructions;
  done.accesses += all.accesses - charged_.accesses;
  for (std::size_t i = 0; i < all.levels.size(); ++i) {
    done.levels[i].accesses += all.levels[i].accesses - charged_.levels[i].accesses;
    done.levels[i].misses += all.levels[i].misses - charged_.levels[i].misses;
    done.levels[i].evictions += all.levels[i].evictions - charged_.levels[i].evictions;
  }
  charged_ = all;
}

void Regions::fill(RegionTable& table) const {
  for (std::uint32_t i = 0; i < nodes_.size(); ++i) {
    const Node& node = nodes_[i];
    table.append({i, node.around, names_[node.name], node.entered, node.done.instructions,
                  node.done.accesses});
  }
}

void Regions::fill(RegionLevelTable& table) const {
  for (std::uint32_t i = 0; i < nodes_.size(); ++i) {
    const std::vector<LevelCounts>& levels = nodes_[i].done.levels;
    for (std::size_t level = 0; level < levels.size(); ++level)
      table.append({i, static_cast<std::uint8_t>(level), levels[level].accesses,
                    levels[level].misses, levels[level].evictions});
  }
}

}  // namespace stallscope::probes
