// SPDX-License-Identifier: Apache-2.0
#include "sources/spe_packets.h"

#include <cstring>

namespace stallscope::sources {
namespace {

constexpr unsigned kPadding = 0x00, kEnd = 0x01, kTimestamp = 0x71;
constexpr unsigned kExtended = 0x20, kExtendedMask = 0xfc;

// Kinds by the bits of their header that are not a size, an index or a class.
struct Form {
  unsigned mask, header, index;  // `index`: the bits that hold it
  SpeKind kind;
};
constexpr Form kForms[] = {
    {0xff, kTimestamp, 0, SpeKind::timestamp}, {0xcf, 0x42, 0, SpeKind::events},
    {0xcf, 0x43, 0, SpeKind::source},          {0xfc, 0x48, 3, SpeKind::operation},
    {0xfc, 0x64, 3, SpeKind::context},         {0xf8, 0xb0, 7, SpeKind::address},
    {0xf8, 0x98, 7, SpeKind::counter},
};

unsigned byte_at(std::span<const std::byte> bytes, std::size_t at) {
  return std::to_integer<unsigned>(bytes[at]);
}

const Form* form_of(unsigned header) {
  for (const Form& form : kForms)
    if ((header & form.mask) == form.header) return &form;
  return nullptr;
}

// Bits 4 and 5 of a header are the logarithm of how many bytes follow it.
std::optional<SpePacket> with_payload(std::span<const std::byte> bytes, std::size_t headers,
                                      const Form& form, unsigned index) {
  const std::size_t size = std::size_t{1} << ((byte_at(bytes, headers - 1) >> 4) & 3);
  if (bytes.size() < headers + size) return std::nullopt;
  SpePacket packet{form.kind, static_cast<std::uint8_t>(index), 0, headers + size};
  std::memcpy(&packet.payload, bytes.data() + headers, size);
  return packet;
}

std::optional<SpePacket> extended(std::span<const std::byte> bytes, std::uint64_t offset) {
  if (bytes.size() < 2) return std::nullopt;
  const unsigned first = byte_at(bytes, 0), second = byte_at(bytes, 1);
  if (second == kPadding) {  // up to a multiple of 2, 4, 8 or 16 bytes
    const std::uint64_t multiple = std::uint64_t{2} << (first & 3);
    SpePacket packet{SpeKind::padding, 0, 0, multiple - offset % multiple};
    if (packet.bytes < 2) packet.bytes += multiple;
    return packet.bytes <= bytes.size() ? std::optional(packet) : std::nullopt;
  }
  const Form* form = form_of(second);
  // Only these have more of a kind than a short header can count.
  if (form == nullptr || (form->kind != SpeKind::address && form->kind != SpeKind::counter))
    return SpePacket{};
  return with_payload(bytes, 2, *form, (first & 3) << 3 | (second & form->index));
}

}  // namespace

std::optional<SpePacket> first_packet(std::span<const std::byte> bytes, std::uint64_t offset) {
  if (bytes.empty()) return std::nullopt;
  const unsigned header = byte_at(bytes, 0);
  if (header == kPadding) return SpePacket{SpeKind::padding, 0, 0, 1};
  if (header == kEnd) return SpePacket{SpeKind::end, 0, 0, 1};
  if ((header & kExtendedMask) == kExtended) return extended(bytes, offset);
  const Form* form = form_of(header);
  if (form == nullptr) return SpePacket{};
  return with_payload(bytes, 1, *form, header & form->index);
}

}  // namespace stallscope::sources
