// SPDX-License-Identifier: Apache-2.0
// The trace on disk (`stream.ss`): chunks, one behind the other, each a fixed header and a payload.
//
//   CODE    the `block` records that the chunks behind it are the first to need
//   TRACE   everything else, encoded (codec.h); readable alone once the CODE chunks are known
//   COUNTS  how often each exit was taken, for runs that count blocks; the newest one holds
//   END     totals to check against; a file without it was cut off
//   VALUES  what accesses read and wrote, in a file beside the trace (values.h)
//   SOME_VALUES  the same of chosen memory
//
// Every header has a checksum of its own, so that hopping from header to header trusts nothing
// unchecked, and names its predecessor's checksum, so that no chunk can be left out, doubled or
// brought in from another file unseen.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "base/result.h"

namespace stallscope::stream {

inline constexpr std::uint64_t kChunkMagic = 0x0A4B4E4843535353;  // "SSSCHNK\n"
inline constexpr std::uint16_t kChunkVersion = 1;

// Nothing larger is written, and nothing larger is believed when read.
inline constexpr std::uint32_t kMaxChunkBytes = 64U << 20;  // payload, packed or unpacked
inline constexpr std::uint32_t kMaxChunkWords = 6U << 20;   // a word needs ten bytes at worst
inline constexpr std::uint32_t kMaxRecordWords = 4U << 20;

enum class ChunkKind : std::uint16_t {
  code = 1,
  trace = 2,
  counts = 3,
  end = 4,
  values = 5,
  some_values = 6
};

// As it lies in the file, little-endian.
struct ChunkHeader {
  std::uint64_t magic;
  std::uint16_t version;
  std::uint16_t kind;           // ChunkKind
  std::uint32_t sequence;       // 0 for the first chunk of a file
  std::uint32_t payload_bytes;  // behind the header
  std::uint32_t raw_bytes;      // of the payload before compression
  std::uint32_t words;          // of the stream in here; exits in COUNTS
  std::uint32_t thread;         // that runs where the chunk begins
  std::uint64_t instructions;   // that were executed before the chunk
  std::uint32_t executions;     // of blocks in here
  std::uint32_t previous;       // header_crc of the chunk in front, 0 for the first
  std::uint32_t payload_crc;
  std::uint32_t header_crc;  // of everything in front of it
};
static_assert(sizeof(ChunkHeader) == 56);

// What is wrong with a file, and where.
struct Damage {
  enum class Kind {
    none,
    truncated,  // it ends before its END chunk: every whole chunk before `offset` can be read
    corrupt,    // what stands at `offset` was not written like this
    newer,      // a later version wrote it
    unreadable  // the operating system failed to deliver it
  };
  Kind kind = Kind::none;
  std::uint64_t offset = 0;
  std::string why;
};

// The three parts for a person; `name` is the file.
Error damage_error(const Damage& damage, const std::string& name);

// Fills in magic, version and both checksums.
void seal(ChunkHeader& header, std::span<const std::byte> payload);

struct ChunkPosition {
  std::uint64_t offset = 0;
  std::uint32_t sequence = 0;
  std::uint32_t previous = 0;  // header_crc of the chunk in front
};

// Judges a header that was read at `position`. Without `checksums` (fuzzing only, to get at the
// code behind) only what guards memory is checked.
Damage check_header(const ChunkHeader& header, const ChunkPosition& position, bool checksums);

// What END holds. `accesses` counts address words, also those that say "did not happen".
struct Totals {
  static constexpr std::size_t kTags = 32;
  std::uint64_t words = 0;
  std::uint64_t executions = 0;
  std::uint64_t accesses = 0;
  std::uint64_t instructions = 0;  // of the block executions
  std::uint64_t records[kTags] = {};

  bool operator==(const Totals&) const = default;
};
static_assert(sizeof(Totals) == (4 + Totals::kTags) * 8);

}  // namespace stallscope::stream
