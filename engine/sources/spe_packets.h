// SPDX-License-Identifier: Apache-2.0
// The packets of Arm's Statistical Profiling Extension (SPE), as the processor writes them into
// memory and the Arm Architecture Reference Manual describes them: a header of one byte, or of two
// where the first one extends the second, and one, two, four or eight bytes behind it.
//
// Nothing of the bytes is believed: what is no packet is told as one byte of an unknown kind.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace stallscope::sources {

enum class SpeKind : std::uint8_t {
  unknown,
  padding,    // also what fills up to an aligned place
  end,        // of a record without a time
  timestamp,  // the generic timer; also the end of a record
  address,
  counter,
  context,
  operation,
  events,
  source,
};

// What the index of an address packet means, and that of a counter.
enum class SpeAddress : std::uint8_t { instruction, branch, data, physical };
enum class SpeCounter : std::uint8_t { total, issue, translation };

struct SpePacket {
  SpeKind kind = SpeKind::unknown;
  std::uint8_t index = 0;  // of an address, a counter, a context; the class of an operation
  std::uint64_t payload = 0;
  std::size_t bytes = 1;
};

// The packet at the front of `bytes`, which stand `offset` bytes behind an aligned place; nothing
// when it is not all there.
std::optional<SpePacket> first_packet(std::span<const std::byte> bytes, std::uint64_t offset);

}  // namespace stallscope::sources
