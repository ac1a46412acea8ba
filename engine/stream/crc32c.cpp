// SPDX-License-Identifier: Apache-2.0
#include "stream/crc32c.h"

#include <array>
#include <cstring>
#if defined(__x86_64__)
#include <nmmintrin.h>
#endif

namespace stallscope::stream {
namespace {

constexpr std::uint32_t kPolynomial = 0x82F63B78;  // bits reversed

constexpr std::array<std::uint32_t, 256> make_table() {
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t byte = 0; byte < 256; ++byte) {
    std::uint32_t rest = byte;
    for (int bit = 0; bit < 8; ++bit) rest = (rest >> 1) ^ ((rest & 1) != 0 ? kPolynomial : 0);
    table[byte] = rest;
  }
  return table;
}
constexpr auto kTable = make_table();

#if defined(__x86_64__)
__attribute__((target("sse4.2"))) std::uint32_t crc32c_sse42(std::span<const std::byte> bytes,
                                                             std::uint32_t before) {
  std::uint64_t rest = ~before;
  const std::byte* at = bytes.data();
  std::size_t left = bytes.size();
  for (; left >= 8; at += 8, left -= 8) {
    std::uint64_t word;
    std::memcpy(&word, at, 8);
    rest = _mm_crc32_u64(rest, word);
  }
  auto narrow = static_cast<std::uint32_t>(rest);
  for (; left > 0; ++at, --left) narrow = _mm_crc32_u8(narrow, static_cast<unsigned char>(*at));
  return ~narrow;
}
#endif

}  // namespace

std::uint32_t crc32c_portable(std::span<const std::byte> bytes, std::uint32_t before) {
  std::uint32_t rest = ~before;
  for (std::byte byte : bytes)
    rest = (rest >> 8) ^ kTable[(rest ^ static_cast<unsigned char>(byte)) & 0xff];
  return ~rest;
}

std::uint32_t crc32c(std::span<const std::byte> bytes, std::uint32_t before) {
#if defined(__x86_64__)
  static const bool fast = __builtin_cpu_supports("sse4.2") != 0;
  if (fast) return crc32c_sse42(bytes, before);
#endif
  return crc32c_portable(bytes, before);
}

}  // namespace stallscope::stream
