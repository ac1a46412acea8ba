// SPDX-License-Identifier: Apache-2.0
// Reads little-endian numbers and strings from untrusted bytes. Reading past the end gives zeros
// and sets failed(), which stays set: check it once after a group of reads.
#pragma once

#include <cstdint>
#include <cstring>
#include <span>

namespace stallscope::symbols {

class ByteReader {
 public:
  ByteReader() = default;
  explicit ByteReader(std::span<const std::uint8_t> bytes) : bytes_(bytes) {}

  bool failed() const { return failed_; }
  bool at_end() const { return failed_ || position_ >= bytes_.size(); }
  std::size_t position() const { return position_; }
  std::size_t left() const { return failed_ ? 0 : bytes_.size() - position_; }

  void skip(std::uint64_t count) {
    if (count > left()) return fail();
    position_ += static_cast<std::size_t>(count);
  }

  // `size` is 1 to 8 bytes.
  std::uint64_t number(unsigned size) {
    if (size > 8 || size > left()) {
      fail();
      return 0;
    }
    std::uint64_t value = 0;
    for (unsigned i = 0; i < size; ++i) {
      value |= static_cast<std::uint64_t>(bytes_[position_ + i]) << (8 * i);
    }
    position_ += size;
    return value;
  }
  std::uint8_t u8() {
    if (left() == 0) {
      fail();
      return 0;
    }
    return bytes_[position_++];
  }
  std::uint16_t u16() { return static_cast<std::uint16_t>(number(2)); }
  std::uint32_t u32() { return static_cast<std::uint32_t>(number(4)); }

  std::uint64_t uleb() {
    std::uint64_t value = 0;
    for (unsigned shift = 0;; shift += 7) {
      std::uint8_t byte = u8();
      if (shift < 64) value |= static_cast<std::uint64_t>(byte & 0x7F) << shift;
      if ((byte & 0x80) == 0 || failed_) return value;
    }
  }
  std::int64_t sleb() {
    std::uint64_t value = 0;
    unsigned shift = 0;
    std::uint8_t byte;
    do {
      byte = u8();
      if (shift < 64) value |= static_cast<std::uint64_t>(byte & 0x7F) << shift;
      shift += 7;
    } while ((byte & 0x80) != 0 && !failed_);
    if (shift < 64 && (byte & 0x40) != 0) value |= ~std::uint64_t{0} << shift;
    return static_cast<std::int64_t>(value);
  }

  // Zero-terminated text; empty when no zero follows.
  const char* text() {
    const void* end = left() ? std::memchr(bytes_.data() + position_, 0, left()) : nullptr;
    if (end == nullptr) {
      fail();
      return "";
    }
    const char* start = reinterpret_cast<const char*>(bytes_.data() + position_);
    position_ = static_cast<std::size_t>(static_cast<const std::uint8_t*>(end) - bytes_.data()) + 1;
    return start;
  }

  // A reader of the next `count` bytes, which this one steps over.
  ByteReader part(std::uint64_t count) {
    std::size_t start = position_;
    skip(count);
    return failed_ ? ByteReader() : ByteReader(bytes_.subspan(start, count));
  }

 private:
  void fail() {
    failed_ = true;
    position_ = bytes_.size();
  }
  std::span<const std::uint8_t> bytes_;
  std::size_t position_ = 0;
  bool failed_ = false;
};

}  // namespace stallscope::symbols
