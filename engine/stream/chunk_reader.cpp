// SPDX-License-Identifier: Apache-2.0
#include "stream/chunk_reader.h"

#include <cstring>

#include "stream/crc32c.h"

namespace stallscope::stream {

Result<ChunkReader> ChunkReader::open(const std::string& path, ReadOptions options,
                                      Damage* damage) {
  auto source = open_file(path);
  if (!source) {
    if (damage != nullptr) *damage = {Damage::Kind::unreadable, 0, source.error().why};
    return source.error();
  }
  return open(std::move(*source), path, options, damage);
}

Result<ChunkReader> ChunkReader::open(std::unique_ptr<Source> source, std::string name,
                                      ReadOptions options, Damage* damage) {
  ChunkReader reader;
  reader.name_ = std::move(name);
  reader.options_ = options;
  reader.source_ = std::move(source);
  reader.index_ = index_chunks(*reader.source_, options.checksums);
  const Damage& found = reader.index_.damage;
  if (damage != nullptr) *damage = found;
  if (found.kind != Damage::Kind::none && found.kind != Damage::Kind::truncated)
    return damage_error(found, reader.name_);
  return reader;
}

Error ChunkReader::corrupt(const ChunkEntry& entry, std::string why) {
  damage_ = {Damage::Kind::corrupt, entry.offset, std::move(why)};
  return damage_error(damage_, name_);
}

Status ChunkReader::located(const ChunkEntry& entry, const Status& status) {
  if (status) return Done{};
  const Error& error = status.error();
  return corrupt(entry, error.why.empty() ? error.what : error.what + ": " + error.why);
}

Result<std::span<const std::byte>> ChunkReader::payload(const ChunkEntry& entry) {
  auto bytes = source_->read(entry.offset + sizeof(ChunkHeader), entry.header.payload_bytes, room_);
  if (!bytes) {
    damage_ = {Damage::Kind::unreadable, entry.offset, bytes.error().why};
    return damage_error(damage_, name_);
  }
  if (options_.checksums && crc32c(*bytes) != entry.header.payload_crc)
    return corrupt(entry, "a chunk's checksum is wrong");
  return bytes;
}

Status ChunkReader::unpack(const ChunkEntry& entry, std::span<Column> columns) {
  auto bytes = payload(entry);
  if (!bytes) return bytes.error();
  return located(entry, unpacker_.unpack(*bytes, entry.header.raw_bytes, columns));
}

Result<Totals> ChunkReader::totals(const ChunkEntry& entry) {
  auto bytes = payload(entry);
  if (!bytes) return bytes.error();
  Totals totals;
  if (bytes->size() != sizeof totals) return corrupt(entry, "the last chunk has a wrong length");
  std::memcpy(&totals, bytes->data(), sizeof totals);
  return totals;
}

}  // namespace stallscope::stream
