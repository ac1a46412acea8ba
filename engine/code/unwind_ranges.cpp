// SPDX-License-Identifier: Apache-2.0
// Reads only the code ranges of .eh_frame, as the Linux Standard Base describes it.
// Not read: indirect and section-relative pointer encodings, which compilers do not use for code.
#include <elf.h>

#include <cstring>
#include <unordered_map>

#include "code/functions.h"

namespace stallscope::code {
namespace {

enum : std::uint8_t { kAbsolute = 0x00, kPcRelative = 0x10, kOmitted = 0xff };

// Reads within bounds; `ok` turns false at the first read outside and stays so.
class Cursor {
 public:
  Cursor(Bytes bytes, std::uint64_t address) : bytes_(bytes), address_(address) {}
  bool ok() const { return ok_; }
  std::size_t left() const { return bytes_.size() - at_; }
  std::uint64_t address() const { return address_ + at_; }

  template <typename T>
  T take() {
    T value{};
    if (left() < sizeof(T)) {
      ok_ = false;
      return value;
    }
    std::memcpy(&value, bytes_.data() + at_, sizeof(T));
    at_ += sizeof(T);
    return value;
  }
  Cursor slice(std::uint64_t length) {
    if (length > left()) {
      ok_ = false;
      length = left();
    }
    Cursor inner(bytes_.subspan(at_, length), address());
    at_ += length;
    return inner;
  }
  void skip_leb128() {
    while (ok_ && (take<std::uint8_t>() & 0x80)) {
    }
  }
  std::uint64_t pointer(std::uint8_t encoding) {
    std::uint64_t base = 0;
    if ((encoding & 0xf0) == kPcRelative)
      base = address();
    else if ((encoding & 0xf0) != kAbsolute)
      ok_ = false;
    return base + number(encoding & 0x0f);
  }
  std::uint64_t number(std::uint8_t format) {
    switch (format) {
      case 0x02:
        return take<std::uint16_t>();
      case 0x03:
        return take<std::uint32_t>();
      case 0x0a:
        return static_cast<std::uint64_t>(take<std::int16_t>());
      case 0x0b:
        return static_cast<std::uint64_t>(take<std::int32_t>());
      case 0x00:
      case 0x04:
      case 0x0c:
        return take<std::uint64_t>();
      default:
        ok_ = false;
        return 0;
    }
  }

 private:
  Bytes bytes_;
  std::uint64_t address_;
  std::size_t at_ = 0;
  bool ok_ = true;
};

// The encoding of code pointers that a common information entry asks of its descriptions.
std::uint8_t code_encoding(Cursor entry) {
  auto version = entry.take<std::uint8_t>();
  std::string augmentation;
  while (char c = static_cast<char>(entry.take<std::uint8_t>())) augmentation += c;
  if (!entry.ok() || augmentation.empty() || augmentation[0] != 'z')
    return augmentation.empty() && entry.ok() ? kAbsolute : kOmitted;
  entry.skip_leb128();  // code alignment
  entry.skip_leb128();  // data alignment
  if (version == 1)
    entry.take<std::uint8_t>();
  else
    entry.skip_leb128();
  entry.skip_leb128();  // length of what follows
  for (char c : augmentation.substr(1)) {
    if (c == 'R') {
      auto encoding = entry.take<std::uint8_t>();
      return entry.ok() ? encoding : std::uint8_t{kOmitted};
    }
    if (c == 'L') entry.take<std::uint8_t>();
    if (c == 'P') entry.pointer(entry.take<std::uint8_t>() & 0x7f);
    if (!entry.ok()) return kOmitted;
  }
  return kAbsolute;
}

std::vector<Function> read_frames(Cursor frames) {
  std::vector<Function> out;
  std::unordered_map<std::uint64_t, std::uint8_t> encodings;  // by address of the common entry
  while (frames.ok() && frames.left() >= 4) {
    std::uint64_t start = frames.address();
    std::uint64_t length = frames.take<std::uint32_t>();
    if (length == 0) {  // a terminator; objects linked later may follow it
      continue;
    }
    if (length == 0xffffffff) length = frames.take<std::uint64_t>();
    Cursor entry = frames.slice(length);
    std::uint64_t id_at = entry.address();
    auto id = entry.take<std::uint32_t>();
    if (!entry.ok() || !frames.ok()) break;
    if (id == 0) {
      encodings[start] = code_encoding(entry);
      continue;
    }
    auto common = encodings.find(id_at - id);
    if (common == encodings.end() || common->second == kOmitted) continue;
    std::uint64_t begin = entry.pointer(common->second);
    std::uint64_t size = entry.number(common->second & 0x0f);
    if (entry.ok() && size > 0 && begin + size > begin)
      out.push_back({begin, begin + size, {}, false});
  }
  return out;
}

}  // namespace

std::vector<Function> unwind_ranges(const ElfImage& image) {
  if (const Section* s = image.section(".eh_frame"))
    return read_frames(Cursor(image.contents(*s), s->address));
  const Segment* header = image.segment(PT_GNU_EH_FRAME);
  if (!header) return {};
  Cursor cursor(image.contents(*header), header->address);
  auto version = cursor.take<std::uint8_t>();
  auto encoding = cursor.take<std::uint8_t>();
  cursor.take<std::uint16_t>();
  std::uint64_t frames = cursor.pointer(encoding);
  if (version != 1 || !cursor.ok()) return {};
  return read_frames(Cursor(image.at(frames), frames));
}

}  // namespace stallscope::code
