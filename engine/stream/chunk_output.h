// SPDX-License-Identifier: Apache-2.0
// Where chunks go: whatever takes bytes at its end, and the appender that keeps a file valid when
// that fails.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "stream/chunk.h"

namespace stallscope::stream {

// Single thread. After an error the bytes may have been written in part.
class Output {
 public:
  virtual ~Output() = default;
  virtual Status append(std::span<const std::byte> bytes) = 0;
  // Best effort: cuts what was appended back to its first `size` bytes.
  virtual void truncate(std::uint64_t size) = 0;
};

// A new file, readable by its owner only; refuses one that is there already.
Result<std::unique_ptr<Output>> create_file(const std::string& path);

// Appends whole chunks. The first failure comes back as an error, what was written of that chunk is
// cut off again, and from then on every call does nothing and reports nothing: one message, and
// everything in front stays valid.
class ChunkAppender {
 public:
  explicit ChunkAppender(std::unique_ptr<Output> output) : output_(std::move(output)) {}

  // `header` needs kind, raw_bytes, words, thread, instructions and executions; the rest is filled
  // in.
  Status append(ChunkHeader header, std::span<const std::byte> payload);

  bool failed() const { return failed_; }
  std::uint64_t bytes() const { return bytes_; }  // of whole chunks

 private:
  std::unique_ptr<Output> output_;
  std::vector<std::byte> buffer_;
  std::uint64_t bytes_ = 0;
  std::uint32_t sequence_ = 0;
  std::uint32_t previous_ = 0;
  bool failed_ = false;
};

}  // namespace stallscope::stream
