// SPDX-License-Identifier: Apache-2.0
// Reads little-endian numbers, text and arrays from untrusted bytes. Reading past the end gives
// zeros and nothing, and sets failed(), which stays set: check it once after a group of reads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>

namespace stallscope::sources {

// An array of 64-bit numbers inside a record, which need not be aligned. Points into the record.
class Words {
 public:
  Words() = default;
  Words(const std::byte* start, std::size_t count) : start_(start), count_(count) {}

  std::size_t size() const { return count_; }
  bool empty() const { return count_ == 0; }
  // `index` is below size().
  std::uint64_t operator[](std::size_t index) const {
    std::uint64_t value;
    std::memcpy(&value, start_ + index * 8, 8);
    return value;
  }

 private:
  const std::byte* start_ = nullptr;
  std::size_t count_ = 0;
};

class Cursor {
 public:
  Cursor() = default;
  explicit Cursor(std::span<const std::byte> bytes) : bytes_(bytes) {}

  bool failed() const { return failed_; }
  std::size_t position() const { return position_; }
  std::size_t left() const { return failed_ ? 0 : bytes_.size() - position_; }

  std::uint8_t u8() { return number<std::uint8_t>(); }
  std::uint16_t u16() { return number<std::uint16_t>(); }
  std::uint32_t u32() { return number<std::uint32_t>(); }
  std::uint64_t u64() { return number<std::uint64_t>(); }

  // The next `count` bytes.
  std::span<const std::byte> bytes(std::uint64_t count) {
    if (count > left()) {
      fail();
      return {};
    }
    const auto part = bytes_.subspan(position_, static_cast<std::size_t>(count));
    position_ += part.size();
    return part;
  }
  Words words(std::uint64_t count) {
    if (count > left() / 8) {
      fail();
      return {};
    }
    return Words(bytes(count * 8).data(), static_cast<std::size_t>(count));
  }
  // What `count` bytes hold up to their first zero.
  std::string_view text(std::uint64_t count) {
    const auto part = bytes(count);
    const char* start = reinterpret_cast<const char*>(part.data());
    return part.empty() ? std::string_view() : std::string_view(start, strnlen(start, part.size()));
  }

 private:
  template <typename Number>
  Number number() {
    Number value = 0;
    if (sizeof(Number) > left()) {
      fail();
    } else {
      std::memcpy(&value, bytes_.data() + position_, sizeof(Number));
      position_ += sizeof(Number);
    }
    return value;
  }
  void fail() {
    failed_ = true;
    position_ = bytes_.size();
  }
  std::span<const std::byte> bytes_;
  std::size_t position_ = 0;
  bool failed_ = false;
};

}  // namespace stallscope::sources
