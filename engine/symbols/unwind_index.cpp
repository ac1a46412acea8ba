// SPDX-License-Identifier: Apache-2.0
#include "symbols/unwind_index.h"

#include <algorithm>

#include "symbols/byte_reader.h"

namespace stallscope::symbols {
namespace {

// Encodings of pointers: DW_EH_PE_udata4, and sdata4 relative to the index.
constexpr std::uint8_t kPlainFour = 0x03, kFromIndex = 0x3b;
constexpr unsigned kPointerBytes[] = {8, 0, 2, 4, 8};  // by the lower half of an encoding

std::uint64_t signed_four(ByteReader& reader) {
  return static_cast<std::uint64_t>(std::int64_t{static_cast<std::int32_t>(reader.u32())});
}

// The code that an entry describes, where it says so as compilers for 64 bits do: its start as a
// distance from here, then its size. 0 where it does not.
std::uint64_t size_of(const LoadedBytes& frames, std::uint64_t entry, std::uint64_t start) {
  if (entry < frames.address || entry - frames.address >= frames.bytes.size()) return 0;
  ByteReader reader(frames.bytes.subspan(entry - frames.address));
  reader.skip(8);  // its length, and where its common part lies
  const std::uint64_t described = entry + 8 + signed_four(reader);
  const std::uint64_t size = reader.u32();
  return reader.failed() || described != start ? 0 : size;
}

}  // namespace

UnwindIndex::UnwindIndex(const Image& image, const Limits& limits) {
  if (image.facts().little_endian) read(image, limits);
}

void UnwindIndex::read(const Image& image, const Limits& limits) {
  const LoadedBytes index = image.loaded_section(".eh_frame_hdr");
  const LoadedBytes frames = image.loaded_section(".eh_frame");
  ByteReader reader(index.bytes);
  if (reader.u8() != 1) return;
  const std::uint8_t frames_as = reader.u8() & 7, count_as = reader.u8(), table_as = reader.u8();
  if (count_as != kPlainFour || table_as != kFromIndex) return;
  if (frames_as >= std::size(kPointerBytes)) return;
  reader.skip(kPointerBytes[frames_as]);
  const std::uint32_t count = std::min(reader.u32(), limits.symbols);
  for (std::uint32_t i = 0; i < count && reader.left() >= 8; ++i) {
    const std::uint64_t start = index.address + signed_four(reader);
    const std::uint64_t entry = index.address + signed_four(reader);
    if (image.is_code(start)) functions_.push_back({start, size_of(frames, entry, start)});
  }
  std::sort(functions_.begin(), functions_.end(),
            [](const Function& a, const Function& b) { return a.start < b.start; });
}

std::optional<std::uint64_t> UnwindIndex::start_of(std::uint64_t address) const {
  const auto after = std::upper_bound(
      functions_.begin(), functions_.end(), address,
      [](std::uint64_t wanted, const Function& one) { return wanted < one.start; });
  if (after == functions_.begin()) return {};
  const Function& found = *(after - 1);
  return address - found.start < found.size ? std::optional(found.start) : std::nullopt;
}

}  // namespace stallscope::symbols
