// SPDX-License-Identifier: Apache-2.0
// Arm SPE in a perf.data file (`perf record -e arm_spe_0//`): what perf says of the tracer, its
// pieces of packets, and whose they are. Its samples take their place among the other records by
// time, and get their thread there.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <unordered_map>
#include <vector>

#include "sources/perf_events.h"
#include "sources/spe_records.h"

namespace stallscope::sources {

// How the kernel makes its nanoseconds of a timer's ticks (TIME_CONV, or a ring's first page).
struct TimerConversion {
  std::uint64_t shift = 0, multiplier = 0, zero = 0;
  std::uint64_t cycles = 0, mask = ~std::uint64_t{0};  // of a short timer

  bool known() const { return multiplier != 0 && shift < 64; }
  std::uint64_t nanoseconds(std::uint64_t ticks) const;  // known() must hold
};

class SpeTrace {
 public:
  // A type of records that no file has: samples made here.
  static constexpr std::uint32_t kMade = 0x5350'0009;
  using Put = std::function<void(std::uint64_t time, std::span<const std::byte> record)>;

  // AUXTRACE_INFO: whether the tracer is Arm's. Then its pieces can be read.
  bool describe(std::span<const std::byte> payload);
  bool described() const { return described_; }
  std::uint32_t event_type() const { return event_type_; }
  // What the file's header says of the processor, where the tracer's own words do not.
  void set_processor(std::uint64_t midr) { midr_ = midr; }
  void set_period(std::uint64_t period) { period_ = period; }
  void set_timer(std::span<const std::byte> payload);  // TIME_CONV

  // A piece: its AUXTRACE record, its bytes in order, its end. `latest` is the time of what came
  // last, for records that have none of their own.
  void begin(std::span<const std::byte> payload, std::uint64_t latest);
  void feed(std::span<const std::byte> bytes, const Put& put);
  void end();

  // Every other record as it is read, in the order of the file.
  void hear(const Event& event);
  // Every other record as its time comes.
  void follow(const Event& event);
  // A sample made here, when its time comes. False: nobody knows whose it is.
  bool sample(std::span<const std::byte> record, Sample& out);

  std::uint64_t damaged() const { return reader_.damaged(); }
  std::uint64_t without_data() const { return without_data_; }
  std::uint64_t without_time() const { return without_time_; }
  std::uint64_t without_thread() const { return without_thread_; }
  std::uint64_t truncated() const { return truncated_; }

 private:
  std::uint64_t midr_of(std::uint32_t cpu) const;
  void make(const SpeRecord& record, const Put& put);
  std::uint32_t thread_on(std::uint32_t cpu, std::uint64_t time) const;

  bool described_ = false;
  std::uint32_t event_type_ = 0;
  std::uint64_t midr_ = 0, period_ = 1;
  std::unordered_map<std::uint32_t, std::uint64_t> midrs_;  // by processor
  TimerConversion timer_;

  SpeReader reader_;
  SpeOrigin origin_;  // of the piece
  std::vector<std::byte> made_;

  // Who let its packets be taken on each processor, by when that was.
  std::unordered_map<std::uint32_t, std::map<std::uint64_t, std::uint32_t>> taken_;
  std::unordered_map<std::uint32_t, std::uint32_t> running_;    // threads, by processor
  std::unordered_map<std::uint32_t, std::uint32_t> processes_;  // by thread
  std::uint64_t without_data_ = 0, without_time_ = 0, without_thread_ = 0, truncated_ = 0;
};

}  // namespace stallscope::sources
