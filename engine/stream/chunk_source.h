// SPDX-License-Identifier: Apache-2.0
// Where chunks come from: a file or memory, and the index of what is in it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "stream/chunk.h"
#include "stream/codec_columns.h"

namespace stallscope::stream {

class Source {
 public:
  virtual ~Source() = default;
  virtual std::uint64_t size() const = 0;
  // `length` bytes at `offset`, which the caller has checked against size(). They lie in `room` or
  // elsewhere, and are valid until `room` changes or the source goes.
  virtual Result<std::span<const std::byte>> read(std::uint64_t offset, std::size_t length,
                                                  Bytes& room) const = 0;
};

Result<std::unique_ptr<Source>> open_file(const std::string& path);
// Not copied: `bytes` must outlive the source.
std::unique_ptr<Source> from_memory(std::span<const std::byte> bytes);

struct ChunkEntry {
  ChunkHeader header;
  std::uint64_t offset;  // of the header
};

struct ChunkIndex {
  std::vector<ChunkEntry> chunks;
  Damage damage;  // what ended the index; none when the last chunk is END and nothing follows
};

// Hops from header to header; payloads are not read.
ChunkIndex index_chunks(const Source& source, bool checksums);

}  // namespace stallscope::stream
