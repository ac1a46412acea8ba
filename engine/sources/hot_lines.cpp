// SPDX-License-Identifier: Apache-2.0
#include "sources/hot_lines.h"

#include <map>
#include <set>
#include <unordered_map>
#include <utility>

namespace stallscope::sources {
namespace {

constexpr std::size_t kFew = 16;   // lines that are touched from one place
constexpr std::size_t kTimes = 4;  // samples a line, on average
constexpr unsigned kLineBits = 6;

// Who was seen at a line: the first thread with its processor, and whether anybody was elsewhere.
struct Seen {
  std::uint32_t thread, cpu;
  bool shared = false;
};

struct Place {
  std::set<std::uint64_t> lines;  // no more than one above kFew
  std::size_t touches = 0;
  bool shared = false;
};

}  // namespace

std::vector<bool> hot_lines(std::span<const Standing> touches) {
  std::unordered_map<std::uint64_t, Seen> seen;
  std::map<std::pair<std::uint32_t, std::uint32_t>, Place> places;  // by spot and thread
  for (const Standing& touch : touches) {
    const std::uint64_t line = touch.address >> kLineBits;
    Seen& who = seen.try_emplace(line, Seen{touch.thread, touch.cpu}).first->second;
    who.shared |= who.thread != touch.thread && who.cpu != touch.cpu;
    Place& place = places[{touch.spot, touch.thread}];
    if (place.lines.size() <= kFew) place.lines.insert(line);
    ++place.touches;
  }
  for (auto& [key, place] : places)
    for (const std::uint64_t line : place.lines) place.shared |= seen.at(line).shared;
  std::vector<bool> hot(touches.size());
  for (std::size_t i = 0; i < touches.size(); ++i) {
    const Place& place = places.at({touches[i].spot, touches[i].thread});
    hot[i] =
        place.lines.size() <= kFew && place.touches >= kTimes * place.lines.size() && !place.shared;
  }
  return hot;
}

}  // namespace stallscope::sources
