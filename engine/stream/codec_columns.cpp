// SPDX-License-Identifier: Apache-2.0
#include "stream/codec_columns.h"

#include <zstd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

namespace stallscope::stream {
namespace {

constexpr int kLevel = 1;
constexpr std::size_t kMaxColumns = 32;

Error bad(const char* why) { return Error{"a chunk of the trace is damaged", why, ""}; }

}  // namespace

std::uint64_t Cursor::long_varint(std::uint64_t value) {
  for (unsigned shift = 7; shift < 64; shift += 7) {
    const std::uint64_t next = byte();
    value |= (next & 0x7f) << shift;
    if (next < 0x80) return value;
  }
  bad = true;
  return 0;
}

Packer::Packer() : context_(ZSTD_createCCtx()) {}
Packer::~Packer() { ZSTD_freeCCtx(context_); }

// A table of (raw size, stored size), then what is stored. A column that would not shrink is stored
// as it is, which equal sizes say.
Result<std::span<const std::byte>> Packer::pack(std::span<const Column> columns) {
  std::size_t bound = columns.size() * 20;
  for (Column column : columns) bound += ZSTD_compressBound(column.size());
  if (payload_.size() < bound) payload_.resize(bound);

  std::array<std::uint8_t, kMaxColumns * 20> table;
  std::uint8_t* entry = table.data();
  std::byte* const body = payload_.data() + columns.size() * 20;
  std::byte* at = body;
  for (Column column : columns) {
    std::size_t stored = column.size();
    if (!column.empty()) {
      stored = ZSTD_compressCCtx(context_, at, ZSTD_compressBound(column.size()), column.data(),
                                 column.size(), kLevel);
      if (ZSTD_isError(stored) != 0)
        return Error{"cannot compress the trace", ZSTD_getErrorName(stored), ""};
      if (stored >= column.size()) {
        stored = column.size();
        std::memcpy(at, column.data(), stored);
      }
    }
    at += stored;
    entry = put_varint(put_varint(entry, column.size()), stored);
  }
  const auto table_bytes = static_cast<std::size_t>(entry - table.data());
  std::byte* const begin = body - table_bytes;
  std::memcpy(begin, table.data(), table_bytes);
  return std::span<const std::byte>(begin, at);
}

Unpacker::~Unpacker() { ZSTD_freeDCtx(context_); }

Unpacker& Unpacker::operator=(Unpacker&& other) noexcept {
  std::swap(context_, other.context_);
  std::swap(buffer_, other.buffer_);
  std::swap(capacity_, other.capacity_);
  return *this;
}

Status Unpacker::unpack_column(std::span<const std::byte> stored, std::span<std::uint8_t> raw) {
  if (stored.size() == raw.size()) {
    if (!raw.empty()) std::memcpy(raw.data(), stored.data(), raw.size());
    return Done{};
  }
  if (context_ == nullptr) context_ = ZSTD_createDCtx();
  const std::size_t size =
      ZSTD_decompressDCtx(context_, raw.data(), raw.size(), stored.data(), stored.size());
  if (ZSTD_isError(size) != 0) return bad(ZSTD_getErrorName(size));
  if (size != raw.size()) return bad("a column is shorter than it says");
  return Done{};
}

Status Unpacker::unpack(std::span<const std::byte> payload, std::uint32_t raw_bytes,
                        std::span<Column> columns) {
  Cursor table(Column(reinterpret_cast<const std::uint8_t*>(payload.data()), payload.size()));
  std::array<std::pair<std::uint64_t, std::uint64_t>, kMaxColumns> sizes;
  std::uint64_t raw_left = raw_bytes;
  std::uint64_t stored_left = payload.size();
  for (std::size_t i = 0; i < columns.size(); ++i) {
    auto& [raw, stored] = sizes[i];
    raw = table.varint();
    stored = table.varint();
    if (raw > raw_left || stored > stored_left || stored > raw)
      return bad("a column is longer than its chunk");
    raw_left -= raw;
    stored_left -= stored;
  }
  const auto table_bytes =
      static_cast<std::uint64_t>(table.at - reinterpret_cast<const std::uint8_t*>(payload.data()));
  if (table.bad || raw_left != 0 || stored_left != table_bytes)
    return bad("its columns do not add up");

  if (capacity_ < raw_bytes) {
    buffer_ = std::make_unique_for_overwrite<std::uint8_t[]>(raw_bytes);
    capacity_ = raw_bytes;
  }
  std::span<std::uint8_t> room(buffer_.get(), raw_bytes);
  std::span<const std::byte> rest = payload.subspan(table_bytes);
  for (std::size_t i = 0; i < columns.size(); ++i) {
    const auto [raw, stored] = sizes[i];
    if (Status done = unpack_column(rest.first(stored), room.first(raw)); !done) return done;
    columns[i] = room.first(raw);
    room = room.subspan(raw);
    rest = rest.subspan(stored);
  }
  return Done{};
}

}  // namespace stallscope::stream
