// SPDX-License-Identifier: Apache-2.0
#include "sources/spe_trace.h"

#include <algorithm>

namespace stallscope::sources {
namespace {

constexpr std::uint32_t kArmSpe = 4;  // among perf's numbers of tracers
constexpr std::uint32_t kAux = 11;    // a kernel's record: packets were taken
constexpr std::uint64_t kTruncated = 1;
constexpr std::uint32_t kNobody = ~std::uint32_t{0};

}  // namespace

std::uint64_t TimerConversion::nanoseconds(std::uint64_t ticks) const {
  ticks = cycles + ((ticks - cycles) & mask);
  const std::uint64_t whole = ticks >> shift;
  const std::uint64_t rest = ticks & ((std::uint64_t{1} << shift) - 1);
  return zero + whole * multiplier + ((rest * multiplier) >> shift);
}

bool SpeTrace::describe(std::span<const std::byte> payload) {
  constexpr std::uint64_t kVersions = 2;  // the first has no number, and two words
  Cursor in(payload);
  const bool arm = in.u32() == kArmSpe;
  in.u32();
  if (!arm || in.failed()) return false;
  const Words words = in.words(in.left() / 8);
  described_ = true;
  if (words.size() <= 2) {
    if (!words.empty()) event_type_ = static_cast<std::uint32_t>(words[0]);
    return true;
  }
  if (words[0] < kVersions || words.size() < 4) return true;
  event_type_ = static_cast<std::uint32_t>(words[2]);
  // Then for each processor: a mark, its number, how many words follow, and they.
  std::uint64_t at = words[1];
  for (std::uint64_t cpu = 0; cpu < words[3] && at < words.size() && words.size() - at > 3; ++cpu) {
    const std::uint64_t follow = words[static_cast<std::size_t>(at) + 2];
    if (follow == 0 || follow > words.size() - at - 3) break;
    midrs_[static_cast<std::uint32_t>(words[static_cast<std::size_t>(at) + 1])] =
        words[static_cast<std::size_t>(at) + 3];
    at += 3 + follow;
  }
  return true;
}

void SpeTrace::set_timer(std::span<const std::byte> payload) {
  Cursor in(payload);
  TimerConversion timer;
  timer.shift = in.u64();
  timer.multiplier = in.u64();
  timer.zero = in.u64();
  if (in.failed()) return;
  const std::uint64_t cycles = in.u64(), mask = in.u64();
  in.u8();
  if (in.u8() != 0 && !in.failed()) {
    timer.cycles = cycles;
    timer.mask = mask;
  }
  timer_ = timer;
}

std::uint64_t SpeTrace::midr_of(std::uint32_t cpu) const {
  const auto found = midrs_.find(cpu);
  return found == midrs_.end() ? midr_ : found->second;
}

void SpeTrace::begin(std::span<const std::byte> payload, std::uint64_t latest) {
  Cursor in(payload);
  in.u64();  // size
  in.u64();  // offset
  in.u64();  // reference
  in.u32();  // number of the buffer
  const std::uint32_t tid = in.u32();
  const std::uint32_t cpu = in.u32();
  origin_ = {};
  origin_.tid = in.failed() || tid == kNobody ? 0 : tid;
  origin_.cpu = in.failed() ? kNobody : cpu;
  origin_.time = latest;
  origin_.period = std::max<std::uint64_t>(period_, 1);
  origin_.midr = midr_of(origin_.cpu);
}

void SpeTrace::make(const SpeRecord& record, const Put& put) {
  if (!is_access(record)) {
    ++without_data_;
    return;
  }
  SpeOrigin origin = origin_;
  if (record.thread) origin.tid = static_cast<std::uint32_t>(*record.thread);
  if (record.timer && timer_.known())
    origin.time = timer_.nanoseconds(*record.timer);
  else
    ++without_time_;
  made_.clear();
  append_sample(record, origin, kMade, made_);
  put(origin.time, made_);
}

void SpeTrace::feed(std::span<const std::byte> bytes, const Put& put) {
  reader_.feed(bytes, [&](const SpeRecord& record) { make(record, put); });
}

void SpeTrace::end() { reader_.end(); }

void SpeTrace::hear(const Event& event) {
  const auto* other = std::get_if<Other>(&event);
  if (other == nullptr || other->type != kAux) return;
  Cursor in(other->payload);
  in.u64();  // offset
  in.u64();  // size
  if ((in.u64() & kTruncated) != 0) ++truncated_;
  if (other->source.tid != 0) taken_[other->source.cpu][other->source.time] = other->source.tid;
}

void SpeTrace::follow(const Event& event) {
  const auto known = [this](std::uint32_t tid, std::uint32_t pid) {
    processes_.insert_or_assign(tid, pid);
  };
  if (const auto* mapped = std::get_if<Mapped>(&event)) known(mapped->tid, mapped->pid);
  if (const auto* named = std::get_if<Named>(&event)) known(named->tid, named->pid);
  if (const auto* forked = std::get_if<Forked>(&event)) known(forked->tid, forked->pid);
  const auto* switched = std::get_if<Switched>(&event);
  if (switched == nullptr) return;
  if (!switched->out)
    running_[switched->source.cpu] = switched->source.tid;
  else if (switched->other_tid != 0)
    running_[switched->source.cpu] = switched->other_tid;
}

// Packets are taken from a processor when a thread leaves it, if not before: whoever comes first
// behind a sample made it. Unless threads that come and go are noted, that is certain only where
// each thread was recorded by itself, as in all recordings of one program.
std::uint32_t SpeTrace::thread_on(std::uint32_t cpu, std::uint64_t time) const {
  if (const auto on = running_.find(cpu); on != running_.end()) return on->second;
  const auto taken = taken_.find(cpu);
  if (taken == taken_.end() || taken->second.empty()) return 0;
  const auto next = taken->second.lower_bound(time);
  return next == taken->second.end() ? std::prev(next)->second : next->second;
}

bool SpeTrace::sample(std::span<const std::byte> record, Sample& out) {
  constexpr std::size_t kTypeBytes = 4;
  std::vector<std::byte> plain(record.begin(), record.end());
  plain[0] = static_cast<std::byte>(RecordType::sample);
  std::fill(plain.begin() + 1, plain.begin() + kTypeBytes, std::byte{0});
  auto parsed = parse(plain, Layout{kSpeSampleType});
  if (!parsed) return false;
  out = std::get<Sample>(*parsed);
  std::uint32_t& tid = out.source.tid;
  if (tid == 0) tid = thread_on(out.source.cpu, out.source.time);
  if (tid == 0) {
    ++without_thread_;
    return false;
  }
  const auto process = processes_.find(tid);
  out.source.pid = process == processes_.end() ? tid : process->second;
  return true;
}

}  // namespace stallscope::sources
