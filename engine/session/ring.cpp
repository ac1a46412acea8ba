// SPDX-License-Identifier: Apache-2.0
#include "session/ring.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>

namespace stallscope::session {
namespace {

std::uint64_t acquire(const ss_word& word) { return __atomic_load_n(&word, __ATOMIC_ACQUIRE); }

Error damaged(const char* why) {
  return Error{"the target damaged the memory that it shares with the recorder", why, ""};
}

}  // namespace

Result<std::unique_ptr<Ring>> Ring::open(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW);
  if (fd < 0) return Error{"cannot open " + path, std::strerror(errno), ""};
  struct stat st;
  if (fstat(fd, &st) != 0 || static_cast<std::uint64_t>(st.st_size) < SS_RING_BYTES) {
    close(fd);
    return std::unique_ptr<Ring>();
  }
  void* memory = mmap(nullptr, SS_RING_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (memory == MAP_FAILED) {
    close(fd);
    return Error{"cannot map " + path, std::strerror(errno), ""};
  }
  std::unique_ptr<Ring> ring(new Ring(fd, static_cast<ss_ring*>(memory)));
  if (acquire(ring->header_->magic) != SS_RING_MAGIC) return std::unique_ptr<Ring>();
  if (ring->header_->version != SS_STREAM_VERSION)
    return Error{"the capture tool and the engine are of different versions", "",
                 "install stallscope again"};
  return ring;
}

Ring::~Ring() {
  munmap(header_, SS_RING_BYTES);
  close(fd_);
}

const std::uint64_t* Ring::buffer(std::uint64_t number) const {
  const char* data = reinterpret_cast<const char*>(header_) + SS_RING_HEADER_BYTES;
  return reinterpret_cast<const std::uint64_t*>(data) +
         (number % SS_RING_BUFFERS) * SS_RING_BUFFER_WORDS;
}

Result<std::span<const std::uint64_t>> Ring::next() {
  while (acquire(header_->published) != header_->consumed) {
    const std::uint64_t consumed = header_->consumed;
    const std::uint64_t used = header_->used[consumed % SS_RING_BUFFERS];
    if (used > SS_RING_BUFFER_WORDS) return damaged("a buffer is longer than it can be");
    if (used < taken_) return damaged("a buffer is shorter than it was");
    if (used > taken_) return std::span(buffer(consumed), used).subspan(taken_);
    release();  // all of it was read before it was published
  }
  return std::span<const std::uint64_t>();
}

void Ring::discard() {
  taken_ = 0;
  __atomic_store_n(&header_->consumed, acquire(header_->published), __ATOMIC_RELEASE);
}

void Ring::release() {
  taken_ = 0;
  __atomic_store_n(&header_->consumed, header_->consumed + 1, __ATOMIC_RELEASE);
}

std::uint64_t Ring::acquire_published() const { return acquire(header_->published); }

bool Ring::ended() const { return acquire(header_->ended) != 0; }

bool Ring::abandoned() const {
  struct flock lock {};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  return fcntl(fd_, F_GETLK, &lock) == 0 && lock.l_type == F_UNLCK;
}

Result<std::span<const std::uint64_t>> Ring::unpublished() const {
  const std::uint64_t number = acquire(header_->published);
  if (number != header_->consumed) return std::span<const std::uint64_t>();
  const bool on_desk = header_->mode & SS_MODE_STREAM;
  // It has published, and was killed before it had cleared the desk, or is about to.
  if (on_desk && acquire(header_->desk) != number) return std::span<const std::uint64_t>();
  const std::uint64_t parked = acquire(header_->parked);
  const std::uint64_t position = parked ? parked : acquire(header_->position);
  // The writer publishes before it moves on, so this tells whether `position` is of that buffer.
  if (acquire(header_->published) != number) return std::span<const std::uint64_t>();
  const std::uint64_t data = header_->base + SS_RING_HEADER_BYTES;
  const std::uint64_t bytes = SS_RING_BUFFER_WORDS * 8ULL;
  const std::uint64_t start =
      on_desk ? header_->base + SS_RING_DESK_OFFSET : data + (number % SS_RING_BUFFERS) * bytes;
  if (position < start || (position - start) / 8 > SS_RING_BUFFER_WORDS) {
    // It has published, and waits for room or was killed before it went on to the next buffer.
    const std::uint64_t last = (number + SS_RING_BUFFERS - 1) % SS_RING_BUFFERS;
    if (number > 0 && position == data + last * bytes + header_->used[last] * 8)
      return std::span<const std::uint64_t>();
    return damaged("its position lies outside the buffer");
  }
  const std::uint64_t used = (position - start) / 8;
  if (used < taken_) return damaged("a buffer is shorter than it was");
  const auto* desk = reinterpret_cast<const std::uint64_t*>(reinterpret_cast<const char*>(header_) +
                                                            SS_RING_DESK_OFFSET);
  return std::span(on_desk ? desk : buffer(number), used).subspan(taken_);
}

std::uint64_t Ring::executed() const { return acquire(header_->executed); }

std::vector<std::uint64_t> Ring::counters(std::size_t exits) const {
  const auto* first = reinterpret_cast<const std::uint64_t*>(
      reinterpret_cast<const char*>(header_) + SS_RING_COUNTER_OFFSET);
  const std::size_t known = std::min<std::size_t>({exits, header_->exits, SS_RING_COUNTERS});
  std::vector<std::uint64_t> counted(first, first + known);
  counted.resize(exits);
  return counted;
}

}  // namespace stallscope::session
