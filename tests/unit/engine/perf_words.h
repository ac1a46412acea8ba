// SPDX-License-Identifier: Apache-2.0
// Words to build perf records with, byte by byte, as linux/perf_event.h documents them.
#pragma once

#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <string_view>
#include <vector>

#include "sources/perf_events.h"

namespace stallscope::sources {

class Bytes {
 public:
  Bytes& u8(std::uint8_t value) { return put(value); }
  Bytes& u16(std::uint16_t value) { return put(value); }
  Bytes& u32(std::uint32_t value) { return put(value); }
  Bytes& u64(std::uint64_t value) { return put(value); }
  Bytes& u64s(std::initializer_list<std::uint64_t> values) {
    for (const std::uint64_t value : values) put(value);
    return *this;
  }
  // Zero-terminated and padded to whole words, as the kernel writes names.
  Bytes& text(std::string_view text) {
    for (const char c : text) put(c);
    do put('\0');
    while (bytes.size() % 8 != 0);
    return *this;
  }
  Bytes& append(const Bytes& other) {
    bytes.insert(bytes.end(), other.bytes.begin(), other.bytes.end());
    return *this;
  }
  std::vector<std::byte> bytes;

 private:
  template <typename Number>
  Bytes& put(Number value) {
    const std::size_t at = bytes.size();
    bytes.resize(at + sizeof value);
    std::memcpy(bytes.data() + at, &value, sizeof value);
    return *this;
  }
};

// A header in front of `payload`.
inline Bytes perf_record(std::uint32_t type, std::uint16_t misc, const Bytes& payload) {
  Bytes record;
  record.u32(type).u16(misc).u16(static_cast<std::uint16_t>(payload.bytes.size() + 8));
  return record.append(payload);
}

}  // namespace stallscope::sources
