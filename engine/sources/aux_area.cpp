// SPDX-License-Identifier: Apache-2.0
#include "sources/aux_area.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace stallscope::sources {

Result<AuxArea> AuxArea::map(int descriptor, perf_event_mmap_page* control, std::size_t pages) {
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  int error = 0;
  for (; pages >= 2; pages /= 2) {
    control->aux_offset = control->data_offset + control->data_size;
    control->aux_size = pages * page;
    void* memory = mmap(nullptr, pages * page, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor,
                        static_cast<off_t>(control->aux_offset));
    if (memory != MAP_FAILED) {
      AuxArea area(control, {static_cast<const std::byte*>(memory), pages * page});
      area.mapped_ = true;
      return area;
    }
    error = errno;
  }
  return Error{"the buffer that the processor writes samples into could not be mapped",
               std::strerror(error),
               "ulimit -l unlimited, or sysctl kernel.perf_event_mlock_kb=4096"};
}

AuxArea::AuxArea(AuxArea&& other) noexcept
    : control_(other.control_), data_(other.data_), mapped_(other.mapped_) {
  other.mapped_ = false;
}

AuxArea::~AuxArea() {
  if (mapped_) munmap(const_cast<std::byte*>(data_.data()), data_.size());
}

void AuxArea::read(std::uint64_t offset, std::uint64_t size,
                   const std::function<void(std::span<const std::byte>)>& visit) const {
  if (size == 0 || size > data_.size()) return;
  // The kernel has written the head before the record that told of it.
  const std::uint64_t head = __atomic_load_n(&control_->aux_head, __ATOMIC_ACQUIRE);
  if (head - offset > data_.size() || size > head - offset) return;
  const auto at = static_cast<std::size_t>(offset & (data_.size() - 1));
  const std::size_t first = std::min(static_cast<std::size_t>(size), data_.size() - at);
  visit(data_.subspan(at, first));
  if (first < size) visit(data_.first(static_cast<std::size_t>(size) - first));
}

void AuxArea::give_back(std::uint64_t offset) {
  __atomic_store_n(&control_->aux_tail, offset, __ATOMIC_RELEASE);
}

// The scale of the timer does not change while the machine runs.
TimerConversion AuxArea::timer() const {
  TimerConversion timer;
  if (!control_->cap_user_time) return timer;
  timer.shift = control_->time_shift;
  timer.multiplier = control_->time_mult;
  return timer;
}

void SpeTaker::take(const Other& aux,
                    const std::function<void(std::span<const std::byte>)>& visit) {
  constexpr std::uint64_t kTruncated = 1;
  Cursor in(aux.payload);
  const std::uint64_t offset = in.u64(), size = in.u64(), flags = in.u64();
  if (in.failed()) return;
  if ((flags & kTruncated) != 0) ++truncated_;
  records_.clear();
  area_.read(offset, size, [&](std::span<const std::byte> bytes) {
    reader_.feed(bytes, [&](const SpeRecord& record) { records_.push_back(record); });
  });
  reader_.end();
  area_.give_back(offset + size);
  const TimerConversion timer = area_.timer();
  std::uint64_t last = 0;
  for (const SpeRecord& record : records_) last = std::max(last, record.timer.value_or(0));
  SpeOrigin origin = origin_;
  origin.pid = aux.source.pid;
  origin.tid = aux.source.tid;
  for (const SpeRecord& record : records_) {
    if (!is_access(record)) continue;
    const bool timed = record.timer && timer.known();
    const std::uint64_t before = timed ? timer.nanoseconds(last - *record.timer) : 0;
    origin.time = aux.source.time - std::min(before, aux.source.time);
    made_.clear();
    append_sample(record, origin, static_cast<std::uint32_t>(RecordType::sample), made_);
    visit(made_);
  }
}

}  // namespace stallscope::sources
