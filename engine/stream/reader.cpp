// SPDX-License-Identifier: Apache-2.0
#include "stream/reader.h"

#include <cstring>

#include "stream/crc32c.h"

namespace stallscope::stream {

Result<TraceReader> TraceReader::open(const std::string& path, ReadOptions options,
                                      Damage* damage) {
  auto source = open_file(path);
  if (!source) {
    if (damage != nullptr) *damage = {Damage::Kind::unreadable, 0, source.error().why};
    return source.error();
  }
  return open(std::move(*source), path, options, damage);
}

Result<TraceReader> TraceReader::open(std::unique_ptr<Source> source, std::string name,
                                      ReadOptions options, Damage* damage) {
  TraceReader reader;
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

Error TraceReader::corrupt(const ChunkEntry& entry, std::string why) {
  damage_ = {Damage::Kind::corrupt, entry.offset, std::move(why)};
  return damage_error(damage_, name_);
}

Status TraceReader::located(const ChunkEntry& entry, const Status& status) {
  if (status) return Done{};
  const Error& error = status.error();
  return corrupt(entry, error.why.empty() ? error.what : error.what + ": " + error.why);
}

Status TraceReader::check_start(const ChunkEntry& entry, std::uint64_t clock) {
  if (entry.header.instructions == clock || !options_.checksums) return Done{};
  return corrupt(entry, "a chunk begins at another instruction than the one in front ended");
}

Result<std::span<const std::byte>> TraceReader::payload(const ChunkEntry& entry) {
  auto bytes = source_->read(entry.offset + sizeof(ChunkHeader), entry.header.payload_bytes, room_);
  if (!bytes) {
    damage_ = {Damage::Kind::unreadable, entry.offset, bytes.error().why};
    return damage_error(damage_, name_);
  }
  if (options_.checksums && crc32c(*bytes) != entry.header.payload_crc)
    return corrupt(entry, "a chunk's checksum is wrong");
  return bytes;
}

Status TraceReader::unpack(const ChunkEntry& entry, std::span<Column> columns) {
  auto bytes = payload(entry);
  if (!bytes) return bytes.error();
  return located(entry, unpacker_.unpack(*bytes, entry.header.raw_bytes, columns));
}

Status TraceReader::unpack_code(const ChunkEntry& entry) {
  if (entry.header.raw_bytes != entry.header.words * 8ULL)
    return corrupt(entry, "a chunk's lengths do not fit each other");
  Column column;
  if (Status unpacked = unpack(entry, std::span(&column, 1)); !unpacked) return unpacked;
  words_.resize(entry.header.words);
  if (!column.empty()) std::memcpy(words_.data(), column.data(), column.size());
  for (std::size_t at = 0; at < words_.size(); at += SS_HEAD_WORDS(words_[at]))
    if (SS_HEAD_TAG(words_[at]) != SS_BLOCK || SS_HEAD_WORDS(words_[at]) == 0)
      return corrupt(entry, "a chunk of code holds something else");
  return Done{};
}

Status TraceReader::load_code() {
  code_ = {};
  predictor_ = {};
  struct Nothing {
    void on_block(std::uint32_t, const Exit&, const std::uint64_t*) {}
    Status on_record(unsigned, const std::uint64_t*, std::uint32_t) { return Done{}; }
  } nothing;
  Totals totals;
  for (const ChunkEntry& entry : index_.chunks) {
    if (entry.header.kind != static_cast<std::uint16_t>(ChunkKind::code)) continue;
    if (Status read = read_code(entry, nothing, totals); !read) return read;
  }
  return Done{};
}

Result<std::optional<std::vector<std::uint64_t>>> TraceReader::counts() {
  const ChunkEntry* newest = nullptr;
  for (const ChunkEntry& entry : index_.chunks)
    if (entry.header.kind == static_cast<std::uint16_t>(ChunkKind::counts)) newest = &entry;
  if (newest == nullptr) return std::optional<std::vector<std::uint64_t>>();
  Column column;
  if (Status unpacked = unpack(*newest, std::span(&column, 1)); !unpacked) return unpacked.error();
  if (newest->header.words > column.size())
    return corrupt(*newest, "a chunk has fewer counters than it says");
  std::vector<std::uint64_t> counters(newest->header.words);
  Cursor in(column);
  std::uint64_t last = 0;
  for (std::uint64_t& count : counters) count = last += unzigzag(in.varint());
  if (!in.done()) return corrupt(*newest, "a chunk's counters are damaged");
  return std::optional(std::move(counters));
}

Result<Totals> TraceReader::unpack_totals(const ChunkEntry& entry) {
  auto bytes = payload(entry);
  if (!bytes) return bytes.error();
  Totals totals;
  if (bytes->size() != sizeof totals) return corrupt(entry, "the last chunk has a wrong length");
  std::memcpy(&totals, bytes->data(), sizeof totals);
  return totals;
}

Result<std::optional<Totals>> TraceReader::totals() {
  if (truncated() || index_.chunks.empty()) return std::optional<Totals>();
  auto totals = unpack_totals(index_.chunks.back());
  if (!totals) return totals.error();
  return std::optional(*totals);
}

}  // namespace stallscope::stream
