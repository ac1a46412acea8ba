// SPDX-License-Identifier: Apache-2.0
#include "sources/watchpoints.h"

#include <linux/hw_breakpoint.h>
#include <linux/perf_event.h>
#include <sys/ioctl.h>
#include <time.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <optional>

#include "sources/tasks.h"

namespace stallscope::sources {
namespace {

constexpr std::uint32_t kWord = 8;  // the most that one register watches
constexpr std::uint64_t kUserEnd = std::uint64_t{1} << 47;
// Touches of several registers by one instruction come together; two instructions cannot trap
// within so little time.
constexpr std::uint64_t kTogether = 4'000;
constexpr std::uint64_t kMillisecond = 1'000'000;
// Patience, and how often it is drawn: seldom when it is long, or the long ones would have all
// registers to themselves.
constexpr std::array<std::uint64_t, 4> kPatience = {100 * kMillisecond, 500 * kMillisecond,
                                                    2'000 * kMillisecond, 10'000 * kMillisecond};
constexpr std::array<double, 4> kDrawn = {5, 3, 2, 1};

// A record of a breakpoint: what `attributes_at` asks for, in the kernel's order.
struct TouchRecord {
  perf_event_header header;
  std::uint64_t ip;
  std::uint32_t pid, tid;
  std::uint64_t time;
  std::uint64_t address;
  std::uint64_t count, ran;
};

perf_event_attr attributes_at(std::uint64_t address) {
  perf_event_attr a{};
  a.size = sizeof a;
  a.type = PERF_TYPE_BREAKPOINT;
  a.bp_type = HW_BREAKPOINT_RW;
  a.bp_addr = address;
  a.bp_len = kWord;
  a.sample_period = 1;
  a.sample_type =
      PERF_SAMPLE_IP | PERF_SAMPLE_TID | PERF_SAMPLE_TIME | PERF_SAMPLE_ADDR | PERF_SAMPLE_READ;
  a.read_format = PERF_FORMAT_TOTAL_TIME_RUNNING;
  a.exclude_kernel = a.exclude_hv = 1;
  a.disabled = 1;
  a.use_clockid = 1;
  a.clockid = CLOCK_MONOTONIC;
  return a;
}

// An event that never counts anything, for its ring.
int open_anchor(pid_t thread) {
  perf_event_attr a{};
  a.size = sizeof a;
  a.type = PERF_TYPE_SOFTWARE;
  a.config = PERF_COUNT_SW_DUMMY;
  a.exclude_kernel = a.exclude_hv = 1;
  a.use_clockid = 1;  // rings are shared only by events of one clock
  a.clockid = CLOCK_MONOTONIC;
  return open_event(a, thread, -1);
}

std::optional<TouchRecord> touch_in(std::span<const std::byte> record) {
  TouchRecord touch;
  if (record.size() != sizeof touch) return std::nullopt;
  std::memcpy(&touch, record.data(), sizeof touch);
  if (touch.header.type != PERF_RECORD_SAMPLE) return std::nullopt;
  return touch;
}

void add_touch(Watched& watched, const TouchRecord& record) {
  const Touch touch{record.time, record.ran, record.ip, record.tid,
                    static_cast<std::uint32_t>((record.address - watched.granule) / kWord)};
  const auto later =
      std::upper_bound(watched.touches.begin(), watched.touches.end(), touch,
                       [](const Touch& a, const Touch& b) { return a.time < b.time; });
  const bool same =
      std::any_of(watched.touches.begin(), watched.touches.end(), [&](const Touch& t) {
        const std::uint64_t apart = t.time > touch.time ? t.time - touch.time : touch.time - t.time;
        return t.tid == touch.tid && apart < kTogether;
      });
  if (!same) watched.touches.insert(later, touch);
}

}  // namespace

Watchpoints::Watchpoints(pid_t process, const WatchOptions& options)
    : process_(process), bytes_(options.bytes), random_(options.seed) {}

// Threads that came get the breakpoints of all watches; those that went are forgotten.
void Watchpoints::follow_threads() {
  const std::vector<pid_t> alive = tasks_of(process_);
  std::erase_if(threads_, [&](const auto& thread) {
    return std::find(alive.begin(), alive.end(), thread.first) == alive.end();
  });
  for (const pid_t thread : alive) {
    if (threads_.contains(thread)) continue;
    Descriptor anchor(open_anchor(thread));
    if (anchor.get() < 0) continue;
    auto ring = Ring::map(anchor.get(), 1);
    if (!ring) continue;
    threads_.emplace(thread, Thread{std::move(anchor), std::move(*ring)});
    for (Armed& armed : armed_) set(armed, thread);
  }
}

bool Watchpoints::set(Armed& armed, pid_t thread) {
  const auto found = threads_.find(thread);
  if (found == threads_.end()) return false;
  for (std::uint32_t at = 0; at < bytes_; at += kWord) {
    Descriptor event(open_event(attributes_at(armed.watched.granule + at), thread, -1));
    if (event.get() < 0) {
      refused_ += event.get() == -ENOSPC || event.get() == -EBUSY;
      return false;
    }
    if (ioctl(event.get(), PERF_EVENT_IOC_SET_OUTPUT, found->second.anchor.get()) != 0 ||
        ioctl(event.get(), PERF_EVENT_IOC_REFRESH, Watched::kTouches) != 0)
      return false;
    armed.events[thread].push_back(std::move(event));
  }
  return true;
}

void Watchpoints::take_touches() {
  for (auto& [number, thread] : threads_)
    thread.ring.drain([&](std::span<const std::byte> bytes) {
      const auto touch = touch_in(bytes);
      if (!touch) return;
      for (Armed& armed : armed_) {
        Watched& watched = armed.watched;
        if (touch->address - watched.granule < bytes_ && touch->time >= watched.armed)
          add_touch(watched, *touch);
      }
    });
}

bool Watchpoints::is_over(const Watched& watched, std::uint64_t now) {
  const std::size_t touches = watched.touches.size();
  const std::uint64_t since = touches == 0 ? watched.armed : watched.touches.back().time;
  return touches >= Watched::kTouches || now >= since + watched.patience;
}

// By turns, so that what is seldom sampled is known as well; at random among equals.
Accessed Watchpoints::choose() {
  std::shuffle(offered_.begin(), offered_.end(), random_);
  const auto least = std::min_element(offered_.begin(), offered_.end(),
                                      [this](const Accessed& a, const Accessed& b) {
                                        return watched_at_[a.ip] < watched_at_[b.ip];
                                      });
  const Accessed chosen = *least;
  offered_.erase(least);
  return chosen;
}

void Watchpoints::arm(const Accessed& accessed, std::uint64_t now) {
  const std::uint64_t granule = accessed.address & ~std::uint64_t{bytes_ - 1};
  if (granule >= kUserEnd) return;
  const bool watched_already = std::any_of(
      armed_.begin(), armed_.end(), [&](const Armed& a) { return a.watched.granule == granule; });
  if (watched_already) return;
  std::discrete_distribution<std::size_t> which(kDrawn.begin(), kDrawn.end());
  Armed armed{{accessed, granule, bytes_, now, kPatience[which(random_)], {}, 0}, {}};
  bool any = false;
  for (const auto& [thread, ring] : threads_) any |= set(armed, thread);
  if (!any) return;
  ++watched_at_[accessed.ip];
  armed_.push_back(std::move(armed));
}

void Watchpoints::poll(std::uint64_t now, std::vector<Watched>& over) {
  take_touches();
  std::erase_if(armed_, [&](Armed& armed) {
    if (!is_over(armed.watched, now)) return false;
    if (armed.watched.touches.size() > Watched::kTouches)
      armed.watched.touches.resize(Watched::kTouches);
    armed.watched.ended = now;
    over.push_back(std::move(armed.watched));
    return true;
  });
  follow_threads();
  const std::size_t most = kRegisters * kWord / bytes_;
  while (armed_.size() < most && !offered_.empty()) arm(choose(), now);
  offered_.clear();
}

void Watchpoints::stop(std::uint64_t now, std::vector<Watched>& over) {
  take_touches();
  for (Armed& armed : armed_) {
    if (armed.watched.touches.size() > Watched::kTouches)
      armed.watched.touches.resize(Watched::kTouches);
    armed.watched.ended = now;
    over.push_back(std::move(armed.watched));
  }
  armed_.clear();
  offered_.clear();
  threads_.clear();
}

std::uint64_t touch_cost() {
  constexpr int kRounds = 40;
  alignas(kWord) static volatile std::uint64_t watched = 0;
  const Descriptor anchor(open_anchor(0));
  if (anchor.get() < 0) return 0;
  auto ring = Ring::map(anchor.get(), 1);
  if (!ring) return 0;
  std::vector<std::uint64_t> costs;
  for (int round = 0; round < kRounds; ++round) {
    const Descriptor event(
        open_event(attributes_at(reinterpret_cast<std::uint64_t>(&watched)), 0, -1));
    if (event.get() < 0 || ioctl(event.get(), PERF_EVENT_IOC_SET_OUTPUT, anchor.get()) != 0 ||
        ioctl(event.get(), PERF_EVENT_IOC_REFRESH, 2) != 0)
      return 0;
    watched = 1;
    watched = 2;
    std::vector<TouchRecord> touches;
    ring->drain([&](std::span<const std::byte> bytes) {
      if (const auto touch = touch_in(bytes)) touches.push_back(*touch);
    });
    if (touches.size() == 2) costs.push_back(touches[1].ran - touches[0].ran);
  }
  if (costs.empty()) return 0;
  const auto middle = costs.begin() + static_cast<std::ptrdiff_t>(costs.size() / 2);
  std::nth_element(costs.begin(), middle, costs.end());
  return *middle;
}

}  // namespace stallscope::sources
