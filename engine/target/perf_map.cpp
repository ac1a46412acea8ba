// SPDX-License-Identifier: Apache-2.0
#include "target/perf_map.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>

namespace stallscope::target {
namespace {

constexpr std::int64_t kMostBytes = 256 << 20;
constexpr std::int64_t kSecond = 1'000'000'000;
constexpr std::int64_t kSlack = 5 * kSecond;  // files keep coarse times

std::int64_t nanoseconds(const timespec& time) { return time.tv_sec * kSecond + time.tv_nsec; }

std::int64_t now(clockid_t clock) {
  timespec time{};
  clock_gettime(clock, &time);
  return nanoseconds(time);
}

// As the wall clock had it at that time of the monotonic one.
std::int64_t wall(std::uint64_t monotonic) {
  return now(CLOCK_REALTIME) - (now(CLOCK_MONOTONIC) - static_cast<std::int64_t>(monotonic));
}

bool believed(const struct stat& facts, std::uint64_t started, std::uint64_t ended) {
  if (!S_ISREG(facts.st_mode) || facts.st_uid != geteuid() || facts.st_size > kMostBytes)
    return false;
  const std::int64_t written = nanoseconds(facts.st_mtim);
  return written >= wall(started) - kSlack && (ended == 0 || written <= wall(ended) + kSlack);
}

std::string read_all(int file, std::size_t size) {
  std::string text(size, '\0');
  std::size_t have = 0;
  while (have < size) {
    const ssize_t got = read(file, text.data() + have, size - have);
    if (got <= 0) break;
    have += static_cast<std::size_t>(got);
  }
  text.resize(have);
  return text;
}

// A hexadecimal number, with or without 0x, and the blank behind it.
bool take_number(std::string_view& line, std::uint64_t& number) {
  if (line.starts_with("0x")) line.remove_prefix(2);
  const auto [end, error] = std::from_chars(line.data(), line.data() + line.size(), number, 16);
  const auto taken = static_cast<std::size_t>(end - line.data());
  if (error != std::errc{} || taken >= line.size() || line[taken] != ' ') return false;
  line.remove_prefix(taken + 1);
  return true;
}

}  // namespace

PerfMap::PerfMap(std::string text) : text_(std::move(text)) {
  const std::string_view all = text_;
  for (std::size_t at = 0; at < all.size();) {
    const std::size_t end = std::min(all.find('\n', at), all.size());
    std::string_view line = all.substr(at, end - at);
    at = end + 1;
    std::uint64_t start = 0, size = 0;
    if (!take_number(line, start) || !take_number(line, size)) continue;
    if (line.empty() || start + size < start) continue;
    const auto name = static_cast<std::size_t>(line.data() - all.data());
    entries_.push_back({start, start + size, name, line.size()});
  }
  std::stable_sort(entries_.begin(), entries_.end(),
                   [](const Entry& a, const Entry& b) { return a.start < b.start; });
}

PerfMap PerfMap::of_process(std::uint64_t pid, std::uint64_t started_ns, std::uint64_t ended_ns,
                            const std::string& folder) {
  const std::string path = folder + "/perf-" + std::to_string(pid) + ".map";
  // Not blocking: whoever put a pipe there would keep us waiting.
  const int file = open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
  if (file < 0) return {};
  struct stat facts {};
  PerfMap map;
  if (fstat(file, &facts) == 0 && believed(facts, started_ns, ended_ns))
    map = PerfMap(read_all(file, static_cast<std::size_t>(facts.st_size)));
  close(file);
  return map;
}

const PerfMap::Entry* PerfMap::find(std::uint64_t address) const {
  auto after = std::upper_bound(entries_.begin(), entries_.end(), address,
                                [](std::uint64_t a, const Entry& e) { return a < e.start; });
  if (after == entries_.begin() || (--after)->end <= address) return nullptr;
  return &*after;
}

std::string_view PerfMap::name(std::uint64_t address) const {
  const Entry* entry = find(address);
  return entry ? std::string_view(text_).substr(entry->name, entry->length) : std::string_view();
}

std::optional<std::pair<std::uint64_t, std::uint64_t>> PerfMap::range(std::uint64_t address) const {
  const Entry* entry = find(address);
  if (entry == nullptr) return std::nullopt;
  return std::pair(entry->start, entry->end);
}

}  // namespace stallscope::target
