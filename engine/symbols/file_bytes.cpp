// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "symbols/image.h"

namespace stallscope::symbols {
namespace {

struct Descriptor {
  int number;
  ~Descriptor() {
    if (number >= 0) close(number);
  }
};

Error cannot_read(const std::string& path, std::string why) {
  return {"cannot read symbols of " + path, std::move(why), ""};
}

// How many bytes came; fewer than `size` when the file shrank.
std::size_t read_all(int file, std::uint8_t* data, std::size_t size) {
  std::size_t done = 0;
  while (done < size) {
    ssize_t got = pread(file, data + done, size - done, static_cast<off_t>(done));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    done += static_cast<std::size_t>(got);
  }
  return done;
}

constexpr std::size_t kPage = 4096;

// The file, followed by zeros: a text that is cut off by the end of the file still ends.
std::uint8_t* map(int file, std::size_t size) {
  void* place = mmap(nullptr, size + kPage, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (place == MAP_FAILED) return nullptr;
  void* mapped =
      mmap(place, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED | MAP_NORESERVE, file, 0);
  if (mapped != MAP_FAILED) return static_cast<std::uint8_t*>(mapped);
  munmap(place, size + kPage);
  return nullptr;
}

}  // namespace

Result<FileBytes> FileBytes::read(const std::string& path, const Limits& limits) {
  // Non-blocking, because a path from a recording may name a pipe by now.
  Descriptor file{::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY)};
  if (file.number < 0) return cannot_read(path, std::strerror(errno));
  struct stat status;
  if (fstat(file.number, &status) != 0) return cannot_read(path, std::strerror(errno));
  if (!S_ISREG(status.st_mode)) return cannot_read(path, "it is not a regular file");
  auto size = static_cast<std::uint64_t>(status.st_size);
  if (size == 0) return cannot_read(path, "it is empty");
  if (size > limits.file_bytes) {
    return cannot_read(path, "it has " + std::to_string(size) + " bytes; the limit is " +
                                 std::to_string(limits.file_bytes));
  }
  if (size > limits.resident_bytes) {
    std::uint8_t* mapped = map(file.number, size);
    if (mapped == nullptr) return cannot_read(path, std::strerror(errno));
    return FileBytes(mapped, size, true);
  }
  auto* data = static_cast<std::uint8_t*>(std::malloc(size + 1));
  if (data == nullptr) return cannot_read(path, "out of memory");
  std::size_t got = read_all(file.number, data, size);
  data[got] = 0;
  return FileBytes(data, got, false);
}

FileBytes FileBytes::copy(std::span<const std::uint8_t> bytes) {
  auto* data = static_cast<std::uint8_t*>(std::malloc(bytes.size() + 1));
  if (data == nullptr) return FileBytes(nullptr, 0, false);
  if (!bytes.empty()) std::memcpy(data, bytes.data(), bytes.size());
  data[bytes.size()] = 0;
  return FileBytes(data, bytes.size(), false);
}

FileBytes::FileBytes(FileBytes&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)),
      mapped_(other.mapped_) {}

FileBytes::~FileBytes() {
  if (data_ == nullptr) return;
  if (mapped_) {
    munmap(data_, size_ + kPage);
  } else {
    std::free(data_);
  }
}

}  // namespace stallscope::symbols
