// SPDX-License-Identifier: Apache-2.0
// What is known of memory by the accesses that were seen: a byte at a time, unknown until one of
// them read or wrote it. What the kernel wrote is not seen.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/flat_map.h"

namespace stallscope::session {

class KnownBytes {
 public:
  // An access of `size` bytes that begin with `value`, of which `known` bytes are told, as values.h
  // has it. Of one that writes, the others are unknown now.
  void see(std::uint64_t address, std::uint32_t size, std::uint64_t value, std::uint8_t known,
           bool writes) {
    for (std::uint32_t i = 0; i < 8; ++i) {
      if (!(known >> i & 1)) continue;
      Word& word = *words_.try_emplace((address + i) >> 3).first;
      const unsigned shift = 8 * ((address + i) & 7);
      word.value = (word.value & ~(std::uint64_t{0xff} << shift)) | (value >> 8 * i & 0xff)
                                                                        << shift;
      word.known |= static_cast<std::uint8_t>(1u << ((address + i) & 7));
    }
    for (std::uint32_t i = 0; writes && i < size; ++i) {
      if (i < 8 && (known >> i & 1)) continue;
      if (Word* word = words_.find((address + i) >> 3); word)
        word->known &= static_cast<std::uint8_t>(~(1u << ((address + i) & 7)));
    }
  }

  // Up to eight bytes; nothing when one of them is unknown.
  std::optional<std::uint64_t> number(std::uint64_t start, std::uint64_t end) const {
    std::uint64_t value = 0;
    for (std::uint64_t at = start; at < end && at < start + 8; ++at) {
      const std::optional<std::uint8_t> byte = this->byte(at);
      if (!byte) return std::nullopt;
      value |= std::uint64_t{*byte} << 8 * (at - start);
    }
    return value;
  }

  // In hexadecimal; `..` for what is unknown.
  std::string text(std::uint64_t start, std::uint64_t end) const {
    constexpr char kDigits[] = "0123456789abcdef";
    std::string out;
    for (std::uint64_t at = start; at < end; ++at) {
      const std::optional<std::uint8_t> byte = this->byte(at);
      out += byte ? kDigits[*byte >> 4] : '.';
      out += byte ? kDigits[*byte & 15] : '.';
    }
    return out;
  }

  // All words that the range has a part in.
  void forget(std::uint64_t start, std::uint64_t end) {
    if (start >= end) return;
    const std::uint64_t first = start >> 3, last = (end - 1) >> 3;
    if (last - first < words_.size()) {
      for (std::uint64_t key = first; key <= last; ++key) words_.erase(key);
      return;
    }
    std::vector<std::uint64_t> gone;
    words_.for_each([&](std::uint64_t key, const Word&) {
      if (key >= first && key <= last) gone.push_back(key);
    });
    for (const std::uint64_t key : gone) words_.erase(key);
  }

 private:
  struct Word {
    std::uint64_t value = 0;
    std::uint8_t known = 0;  // a bit for each byte
  };
  std::optional<std::uint8_t> byte(std::uint64_t at) const {
    const Word* word = words_.find(at >> 3);
    if (!word || !(word->known >> (at & 7) & 1)) return std::nullopt;
    return static_cast<std::uint8_t>(word->value >> 8 * (at & 7));
  }

  FlatMap<Word> words_;  // by address / 8
};

}  // namespace stallscope::session
