// SPDX-License-Identifier: Apache-2.0
#include "stream/chunk.h"

#include <cstddef>

#include "stream/crc32c.h"

namespace stallscope::stream {
namespace {

std::uint32_t header_crc(const ChunkHeader& header) {
  return crc32c(std::as_bytes(std::span(&header, 1)).first(offsetof(ChunkHeader, header_crc)));
}

bool known(std::uint16_t kind) {
  return kind >= static_cast<std::uint16_t>(ChunkKind::code) &&
         kind <= static_cast<std::uint16_t>(ChunkKind::some_values);
}

}  // namespace

void seal(ChunkHeader& header, std::span<const std::byte> payload) {
  header.magic = kChunkMagic;
  header.version = kChunkVersion;
  header.payload_bytes = static_cast<std::uint32_t>(payload.size());
  header.payload_crc = crc32c(payload);
  header.header_crc = header_crc(header);
}

Damage check_header(const ChunkHeader& header, const ChunkPosition& position, bool checksums) {
  const auto corrupt = [&](const char* why) {
    return Damage{Damage::Kind::corrupt, position.offset, why};
  };
  if (header.magic != kChunkMagic) return corrupt("no chunk begins there");
  // Before the checksum: a later version may well put it elsewhere.
  if (header.version > kChunkVersion)
    return {Damage::Kind::newer, position.offset,
            "its chunks have version " + std::to_string(header.version) + ", this program reads " +
                std::to_string(kChunkVersion)};
  if (checksums && header.header_crc != header_crc(header))
    return corrupt("a chunk header's checksum is wrong");
  if (header.version == 0 || !known(header.kind)) return corrupt("a chunk is of an unknown kind");
  if (header.payload_bytes > kMaxChunkBytes || header.raw_bytes > kMaxChunkBytes)
    return corrupt("a chunk is longer than any that is written");
  if (header.words > kMaxChunkWords || header.executions > header.words)
    return corrupt("a chunk has more words than any that is written");
  if (header.sequence != position.sequence) return corrupt("a chunk is out of order");
  if (checksums && header.previous != position.previous)
    return corrupt("a chunk does not belong behind the one in front of it");
  return {};
}

Error damage_error(const Damage& damage, const std::string& name) {
  const std::string where = " at byte " + std::to_string(damage.offset);
  switch (damage.kind) {
    case Damage::Kind::newer:
      return {name + " was written by a newer Stallscope", damage.why, "try: a newer Stallscope"};
    case Damage::Kind::truncated:
      return {name + " is cut off" + where, damage.why, ""};
    case Damage::Kind::unreadable:
      return {name + " cannot be read" + where, damage.why, ""};
    default:
      return {name + " is corrupt" + where, damage.why, "record the program again"};
  }
}

}  // namespace stallscope::stream
