// SPDX-License-Identifier: Apache-2.0
// The part of a perf ring into which hardware writes by itself (the AUX area), and the packets of
// Arm's SPE in it: each AUX record of the ring says which bytes have come, of which thread, when.
#pragma once

#include <linux/perf_event.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "base/result.h"
#include "sources/perf_events.h"
#include "sources/spe_records.h"
#include "sources/spe_trace.h"

namespace stallscope::sources {

class AuxArea {
 public:
  // Behind a ring's `pages` of data; `control` is its first page, which outlives the area.
  static Result<AuxArea> map(int descriptor, perf_event_mmap_page* control, std::size_t pages);
  // Memory of somebody else's, whose size is a power of two.
  AuxArea(perf_event_mmap_page* control, std::span<const std::byte> data)
      : control_(control), data_(data) {}
  AuxArea(AuxArea&& other) noexcept;
  AuxArea& operator=(AuxArea&&) = delete;
  ~AuxArea();

  // visit(bytes) once, or twice where the area wraps; nothing when that many cannot be there.
  void read(std::uint64_t offset, std::uint64_t size,
            const std::function<void(std::span<const std::byte>)>& visit) const;
  // Up to `offset` the hardware may write again.
  void give_back(std::uint64_t offset);
  TimerConversion timer() const;

 private:
  perf_event_mmap_page* control_;
  std::span<const std::byte> data_;
  bool mapped_ = false;
};

class SpeTaker {
 public:
  // `origin` gives what all samples have: processor and period.
  SpeTaker(AuxArea area, const SpeOrigin& origin) : area_(std::move(area)), origin_(origin) {}

  // An AUX record, with a Source behind it. visit(record) for each load and store: samples as the
  // kernel's, of kSpeSampleType. Their times go back from that of the AUX record by the timer.
  void take(const Other& aux, const std::function<void(std::span<const std::byte>)>& visit);

  std::uint64_t damaged() const { return reader_.damaged(); }
  std::uint64_t truncated() const { return truncated_; }  // how often the area was full

 private:
  AuxArea area_;
  SpeOrigin origin_;
  SpeReader reader_;
  std::uint64_t truncated_ = 0;
  std::vector<SpeRecord> records_;
  std::vector<std::byte> made_;
};

}  // namespace stallscope::sources
