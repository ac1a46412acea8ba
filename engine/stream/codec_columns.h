// SPDX-License-Identifier: Apache-2.0
// The byte columns that a payload consists of: packed with zstd one by one, since bytes of one
// meaning compress better together, and unpacked into one buffer whose size is checked first.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/result.h"

struct ZSTD_CCtx_s;
struct ZSTD_DCtx_s;

namespace stallscope::stream {

using Bytes = std::vector<std::byte>;
using Column = std::span<const std::uint8_t>;

inline std::uint64_t zigzag(std::uint64_t difference) {
  return (difference << 1) ^ (0 - (difference >> 63));
}
inline std::uint64_t unzigzag(std::uint64_t code) { return (code >> 1) ^ (0 - (code & 1)); }

// Writes at most ten bytes and returns where the next one goes.
inline std::uint8_t* put_varint(std::uint8_t* at, std::uint64_t value) {
  for (; value >= 0x80; value >>= 7) *at++ = static_cast<std::uint8_t>(value | 0x80);
  *at++ = static_cast<std::uint8_t>(value);
  return at;
}

// Reads a column and never past it. A read behind the end gives 0 and makes `bad` true, so that a
// caller may check once for many reads.
struct Cursor {
  const std::uint8_t* at = nullptr;
  const std::uint8_t* end = nullptr;
  bool bad = false;

  explicit Cursor(Column column = {}) : at(column.data()), end(column.data() + column.size()) {}
  bool done() const { return at == end && !bad; }
  std::uint8_t byte() {
    if (at == end) [[unlikely]] {
      bad = true;
      return 0;
    }
    return *at++;
  }
  std::uint64_t varint() {
    std::uint64_t first = byte();
    if (first < 0x80) [[likely]]
      return first;
    return long_varint(first & 0x7f);
  }

 private:
  std::uint64_t long_varint(std::uint64_t value);
};

class Packer {
 public:
  Packer();
  ~Packer();
  Packer(const Packer&) = delete;
  Packer& operator=(const Packer&) = delete;
  // The payload, valid until the next call.
  Result<std::span<const std::byte>> pack(std::span<const Column> columns);

 private:
  ZSTD_CCtx_s* context_;
  Bytes payload_;
};

class Unpacker {
 public:
  Unpacker() = default;
  ~Unpacker();
  Unpacker(Unpacker&& other) noexcept { *this = std::move(other); }
  Unpacker& operator=(Unpacker&& other) noexcept;

  // Fills `columns`, which stay valid until the next call. `raw_bytes` is what the header says they
  // have together, already capped; a payload that would give more or less is an error.
  Status unpack(std::span<const std::byte> payload, std::uint32_t raw_bytes,
                std::span<Column> columns);

 private:
  Status unpack_column(std::span<const std::byte> stored, std::span<std::uint8_t> raw);

  ZSTD_DCtx_s* context_ = nullptr;  // made when first needed
  std::unique_ptr<std::uint8_t[]> buffer_;
  std::size_t capacity_ = 0;
};

}  // namespace stallscope::stream
