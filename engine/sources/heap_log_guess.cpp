// SPDX-License-Identifier: Apache-2.0
// Blocks that a thread let pass have no marks, and marks of blocks that it freed stay. Whose block
// an address is in is then told by what was marked there and beside it. Allocators put blocks of
// one size where blocks of that size were: so a mark that covers the address has a voice, and
// beside it those of its size; where none covers it, all have. Not known: the block's own size, and
// how long ago a mark was made.
#include <algorithm>
#include <cstdlib>
#include <map>

#include "heap_log_layout.h"
#include "sources/heap_log.h"

namespace stallscope::sources {
namespace {

constexpr std::uint64_t kGranule = 16;
constexpr std::uint64_t kReach = HEAP_LOG_SMALL / kGranule;  // of a small block
constexpr std::uint64_t kBeside = 4096 / kGranule;           // how far voices are heard
constexpr std::size_t kVoices = 8;
constexpr double kOwn = 2;  // voices of the mark that covers the address

struct Marked {
  std::uint64_t granule, granules;
  std::uint32_t site;

  bool covers(std::uint64_t other) const { return other - granule < granules; }
  std::uint64_t distance(std::uint64_t other) const {
    return other < granule ? granule - other : covers(other) ? 0 : other - granule - granules + 1;
  }
};

// Every block that has a mark in `marks`, which begin with that of granule `first`, freed or not.
std::vector<Marked> marked(const std::vector<std::uint16_t>& marks, std::uint64_t first) {
  std::vector<Marked> found;
  for (std::size_t i = 0; i < marks.size(); ++i) {
    const std::uint32_t site = marks[i] & (HEAP_LOG_FREED - 1);
    if ((marks[i] & HEAP_LOG_IS_SIZE) || site == 0 || site == HEAP_LOG_LARGE) continue;
    const std::uint16_t next = i + 1 < marks.size() ? marks[i + 1] : 0;
    const std::uint64_t size = next & HEAP_LOG_IS_SIZE ? next & (HEAP_LOG_SMALL - 1) : kGranule;
    found.push_back(
        {first + i, std::max<std::uint64_t>((size + kGranule - 1) / kGranule, 1), site});
  }
  return found;
}

// The nearest first; `own` alone when nothing is beside it.
std::vector<Marked> voices(std::vector<Marked> all, const Marked* own, std::uint64_t granule) {
  std::erase_if(all, [&](const Marked& one) {
    return one.distance(granule) > kBeside || (own && one.granules != own->granules);
  });
  std::stable_sort(all.begin(), all.end(), [&](const Marked& a, const Marked& b) {
    return a.distance(granule) < b.distance(granule);
  });
  if (all.size() > kVoices) all.resize(kVoices);
  return all;
}

}  // namespace

// The granules of all regions from `first` to `last`.
std::vector<std::uint16_t> HeapLog::marks_between(std::uint64_t first, std::uint64_t last) const {
  std::vector<std::uint16_t> marks(last - first + 1);
  for (std::uint64_t at = first; at <= last;) {
    const std::uint64_t end =
        std::min(last + 1, (at / HEAP_LOG_REGION_MARKS + 1) * HEAP_LOG_REGION_MARKS);
    read_marks(at, marks.data() + (at - first), end - at);
    at = end;
  }
  return marks;
}

std::optional<HeapGuess> HeapLog::guess(Address address) {
  constexpr std::uint64_t kHighest = std::uint64_t{1} << 47;
  refresh();
  if (!counts_.is_sampled || address.value >= kHighest) return std::nullopt;
  const std::uint64_t granule = address.value / kGranule;
  const std::uint64_t first = granule < kReach ? 0 : granule - kReach;
  const std::vector<Marked> all = marked(marks_between(first, granule + kBeside), first);
  const Marked* own = nullptr;
  for (const Marked& one : all)
    if (one.covers(granule)) own = &one;  // the one that begins last
  std::map<std::uint32_t, double> votes;
  double total = 0;
  for (const Marked& one : voices(all, own, granule)) {
    const double weight = own && one.granule == own->granule ? kOwn : 1;
    votes[one.site] += weight;
    total += weight;
  }
  if (votes.empty()) return std::nullopt;
  const auto most = std::max_element(
      votes.begin(), votes.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
  return HeapGuess{most->first, most->second / (total + 1)};
}

}  // namespace stallscope::sources
