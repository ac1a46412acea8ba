// SPDX-License-Identifier: Apache-2.0
// CRC-32C (Castagnoli polynomial), the checksum of every chunk on disk.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace stallscope::stream {

// `before` is the checksum of the bytes in front, so that a checksum can be built in parts.
std::uint32_t crc32c(std::span<const std::byte> bytes, std::uint32_t before = 0);

// The same without the processor's instruction; crc32c falls back on it. For the tests as well.
std::uint32_t crc32c_portable(std::span<const std::byte> bytes, std::uint32_t before = 0);

}  // namespace stallscope::stream
