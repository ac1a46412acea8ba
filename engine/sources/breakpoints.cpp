// SPDX-License-Identifier: Apache-2.0
#include "sources/breakpoints.h"

#include <linux/hw_breakpoint.h>
#include <linux/perf_event.h>
#include <sys/ioctl.h>
#include <time.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "sources/tasks.h"

namespace stallscope::sources {
namespace {

constexpr std::size_t kRingPages = 64;
// As the kernel numbers them: ax to ip, and r8 to r15.
constexpr std::uint64_t kRegisters = 0x1ff | 0xff0000;

// What `attributes_of` asks for, in the kernel's order.
struct HitRecord {
  perf_event_header header;
  std::uint64_t ip;
  std::uint32_t pid, tid;
  std::uint64_t time;
  std::uint64_t address;
  std::uint64_t abi;
  std::array<std::uint64_t, WordHit::kRegisters> registers;
};

struct LostRecord {
  perf_event_header header;
  std::uint64_t id, lost;
};

void use_clock(perf_event_attr& a) {
  a.size = sizeof a;
  a.exclude_kernel = a.exclude_hv = 1;
  a.use_clockid = 1;  // rings are shared only by events of one clock
  a.clockid = CLOCK_MONOTONIC;
}

perf_event_attr attributes_of(const WatchedWord& word) {
  perf_event_attr a{};
  use_clock(a);
  a.type = PERF_TYPE_BREAKPOINT;
  a.bp_type = word.reads ? HW_BREAKPOINT_RW : HW_BREAKPOINT_W;
  a.bp_addr = word.start;
  a.bp_len = word.bytes;
  a.sample_period = 1;
  a.sample_type = PERF_SAMPLE_IP | PERF_SAMPLE_TID | PERF_SAMPLE_TIME | PERF_SAMPLE_ADDR |
                  PERF_SAMPLE_REGS_USER;
  a.sample_regs_user = kRegisters;
  return a;
}

perf_event_attr anchor_attributes() {
  perf_event_attr a{};
  use_clock(a);
  a.type = PERF_TYPE_SOFTWARE;
  a.config = PERF_COUNT_SW_DUMMY;
  return a;
}

}  // namespace

Result<Breakpoints> Breakpoints::set(pid_t process, std::vector<WatchedWord> words) {
  if (words.empty() || words.size() > kMost)
    return Error{"breakpoints watch one to four words", "", ""};
  for (const WatchedWord& word : words)
    if (word.bytes == 0 || word.bytes > 8 || (word.bytes & (word.bytes - 1)) != 0 ||
        word.start % word.bytes != 0)
      return Error{"a breakpoint watches 1, 2, 4 or 8 aligned bytes", "", ""};
  Breakpoints made(process, std::move(words));
  const int refused = made.follow_threads();
  if (!made.threads_.empty()) return std::move(made);
  if (refused == 0) return Error{"there is no process " + std::to_string(process), "", ""};
  return Error{"process " + std::to_string(process) + " cannot be watched", std::strerror(refused),
               "stallscope doctor"};
}

int Breakpoints::follow_threads() {
  const std::vector<pid_t> alive = tasks_of(process_);
  std::erase_if(threads_, [&](const auto& thread) {
    return std::find(alive.begin(), alive.end(), thread.first) == alive.end();
  });
  int refused = 0;
  for (const pid_t thread : alive)
    if (!threads_.contains(thread))
      if (const int error = watch(thread); error != 0) refused = error;
  return refused;
}

int Breakpoints::watch(pid_t thread) {
  Descriptor anchor(open_event(anchor_attributes(), thread, -1));
  if (anchor.get() < 0) return -anchor.get();
  auto ring = Ring::map(anchor.get(), kRingPages);
  if (!ring) return ENOMEM;
  std::vector<Descriptor> events;
  for (const WatchedWord& word : words_) {
    events.emplace_back(open_event(attributes_of(word), thread, -1));
    if (events.back().get() < 0) return -events.back().get();
    if (ioctl(events.back().get(), PERF_EVENT_IOC_SET_OUTPUT, anchor.get()) != 0) return errno;
  }
  threads_.emplace(thread, Thread{std::move(anchor), std::move(*ring), std::move(events)});
  return 0;
}

void Breakpoints::take(std::span<const std::byte> bytes, std::vector<WordHit>& hits) {
  perf_event_header header;
  std::memcpy(&header, bytes.data(), sizeof header);
  if (header.type == PERF_RECORD_LOST && bytes.size() >= sizeof(LostRecord)) {
    LostRecord lost;
    std::memcpy(&lost, bytes.data(), sizeof lost);
    lost_ += lost.lost;
  }
  if (header.type != PERF_RECORD_SAMPLE || bytes.size() != sizeof(HitRecord)) return;
  HitRecord record;
  std::memcpy(&record, bytes.data(), sizeof record);
  for (std::uint32_t i = 0; i < words_.size(); ++i)
    if (record.address >= words_[i].start && record.address < words_[i].start + words_[i].bytes)
      hits.push_back({record.time, record.ip, i, record.tid, record.registers});
}

std::vector<WordHit> Breakpoints::poll() {
  std::vector<WordHit> hits;
  for (auto& [number, thread] : threads_)
    thread.ring.drain([&](std::span<const std::byte> bytes) { take(bytes, hits); });
  std::stable_sort(hits.begin(), hits.end(),
                   [](const WordHit& a, const WordHit& b) { return a.time < b.time; });
  follow_threads();
  return hits;
}

}  // namespace stallscope::sources
