// SPDX-License-Identifier: Apache-2.0
// One open event of the kernel (a file descriptor), and one of its ring buffers.
#pragma once

#include <linux/perf_event.h>
#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"

namespace stallscope::sources {

// Closes itself.
class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int number) : number_(number) {}
  Descriptor(Descriptor&& other) noexcept : number_(other.number_) { other.number_ = -1; }
  Descriptor& operator=(Descriptor&& other) noexcept;
  ~Descriptor();
  int get() const { return number_; }

 private:
  int number_ = -1;
};

// What perf_event_open answers: a descriptor, or errno below zero. `leader` is the descriptor of
// the event whose group it joins.
int open_event(const perf_event_attr& attributes, pid_t thread, int cpu, int leader = -1);

class Ring {
 public:
  static constexpr std::size_t kPages = 128;  // of data: all that an ordinary user may lock

  // The descriptor outlives the ring. Fewer pages are tried where locked memory is scarce.
  static Result<Ring> map(int descriptor, std::size_t pages = kPages);
  Ring(Ring&& other) noexcept;
  Ring& operator=(Ring&&) = delete;
  ~Ring();

  // Every whole record that is there: visit(span of bytes, header included), valid for the call.
  template <typename Visit>
  void drain(Visit&& visit) {
    const std::uint64_t head = written();
    while (read_ + sizeof(perf_event_header) <= head) {
      const std::span<const std::byte> record = next(head);
      if (record.empty()) break;
      visit(record);
      read_ += record.size();
    }
    give_back(head);
  }
  perf_event_mmap_page* control() const { return static_cast<perf_event_mmap_page*>(memory_); }

 private:
  Ring(void* memory, std::size_t pages) : memory_(memory), pages_(pages) {}
  std::uint64_t written() const;
  std::span<const std::byte> next(std::uint64_t head);  // empty: nonsense, or not all there
  void give_back(std::uint64_t head);

  void* memory_;
  std::size_t pages_;  // of data
  std::uint64_t read_ = 0;
  std::vector<std::byte> joined_;  // a record that wraps around
};

}  // namespace stallscope::sources
