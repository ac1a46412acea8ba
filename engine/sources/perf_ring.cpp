// SPDX-License-Identifier: Apache-2.0
#include "sources/perf_ring.h"

#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace stallscope::sources {
namespace {

const std::size_t kPage = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));

}  // namespace

Descriptor& Descriptor::operator=(Descriptor&& other) noexcept {
  std::swap(number_, other.number_);
  return *this;
}

Descriptor::~Descriptor() {
  if (number_ >= 0) close(number_);
}

int open_event(const perf_event_attr& attributes, pid_t thread, int cpu, int leader) {
  const long answer =
      syscall(SYS_perf_event_open, &attributes, thread, cpu, leader, PERF_FLAG_FD_CLOEXEC);
  return answer >= 0 ? static_cast<int>(answer) : -errno;
}

Result<Ring> Ring::map(int descriptor, std::size_t pages) {
  int error = 0;
  for (const std::size_t least = std::min<std::size_t>(pages, 4); pages >= least; pages /= 2) {
    void* memory =
        mmap(nullptr, (pages + 1) * kPage, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
    if (memory != MAP_FAILED) return Ring(memory, pages);
    error = errno;
  }
  return Error{"the kernel's buffer for samples could not be mapped", std::strerror(error),
               "ulimit -l unlimited, or sysctl kernel.perf_event_mlock_kb=4096"};
}

Ring::Ring(Ring&& other) noexcept
    : memory_(other.memory_), pages_(other.pages_), read_(other.read_) {
  other.memory_ = nullptr;
}

Ring::~Ring() {
  if (memory_ != nullptr) munmap(memory_, (pages_ + 1) * kPage);
}

std::uint64_t Ring::written() const {
  return __atomic_load_n(&control()->data_head, __ATOMIC_ACQUIRE);
}

void Ring::give_back(std::uint64_t head) {
  if (read_ + sizeof(perf_event_header) <= head) read_ = head;  // nonsense: all of it goes
  __atomic_store_n(&control()->data_tail, read_, __ATOMIC_RELEASE);
}

std::span<const std::byte> Ring::next(std::uint64_t head) {
  const std::size_t size = pages_ * kPage;
  const auto* data = static_cast<const std::byte*>(memory_) + kPage;
  const std::size_t at = read_ & (size - 1);
  perf_event_header header;  // 8 bytes, aligned: never wraps
  std::memcpy(&header, data + at, sizeof header);
  if (header.size < sizeof header || header.size > head - read_) return {};
  if (at + header.size <= size) return {data + at, header.size};
  joined_.resize(header.size);
  const std::size_t first = size - at;
  std::memcpy(joined_.data(), data + at, first);
  std::memcpy(joined_.data() + first, data, header.size - first);
  return joined_;
}

}  // namespace stallscope::sources
