// SPDX-License-Identifier: Apache-2.0
// Words to build the packets of Arm's SPE with, byte by byte, as the Arm Architecture Reference
// Manual describes them.
#pragma once

#include "perf_words.h"

namespace stallscope::sources {

inline constexpr std::uint64_t kNeoverseN1 = 0x410fd0c0;

class SpeBytes : public Bytes {
 public:
  SpeBytes& instruction(std::uint64_t address, unsigned level = 0) {
    u8(0xb0).u64(address | std::uint64_t{level} << 61 | std::uint64_t{1} << 63);
    return *this;
  }
  SpeBytes& data(std::uint64_t address) {
    u8(0xb2).u64(address);
    return *this;
  }
  SpeBytes& physical(std::uint64_t address) {
    u8(0xb3).u64(address);
    return *this;
  }
  SpeBytes& branch(std::uint64_t address) {
    u8(0xb1).u64(address);
    return *this;
  }
  SpeBytes& counter(unsigned index, std::uint16_t cycles) {
    u8(static_cast<std::uint8_t>(0x98 | index)).u16(cycles);
    return *this;
  }
  SpeBytes& operation(unsigned kind, std::uint8_t payload) {
    u8(static_cast<std::uint8_t>(0x48 | kind)).u8(payload);
    return *this;
  }
  SpeBytes& events(std::uint32_t bits) {
    u8(0x62).u32(bits);
    return *this;
  }
  SpeBytes& source(std::uint8_t which) {
    u8(0x43).u8(which);
    return *this;
  }
  SpeBytes& context(std::uint32_t thread) {
    u8(0x65).u32(thread);
    return *this;
  }
  SpeBytes& timestamp(std::uint64_t ticks) {
    u8(0x71).u64(ticks);
    return *this;
  }
  SpeBytes& end() {
    u8(0x01);
    return *this;
  }
  SpeBytes& padding(unsigned count) {
    for (unsigned i = 0; i < count; ++i) u8(0);
    return *this;
  }
};

// As a Neoverse core writes a load, with the packets in its order.
inline SpeBytes spe_load(std::uint64_t ip, std::uint64_t address, std::uint8_t source,
                         std::uint64_t ticks, std::uint32_t thread = 0) {
  SpeBytes bytes;
  bytes.instruction(ip).operation(1, 0).counter(0, 180).counter(1, 20).counter(2, 3);
  if (thread) bytes.context(thread);
  bytes.data(address).events(1U << 1 | 1U << 2 | 1U << 4).source(source);
  return bytes.timestamp(ticks);
}

}  // namespace stallscope::sources
