// SPDX-License-Identifier: Apache-2.0
#include "symbols/string_table.h"

#include <algorithm>

namespace stallscope::symbols {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";
constexpr std::string_view kEllipsis = "\xE2\x80\xA6";

// Length of the well-formed UTF-8 sequence that `text` starts with, 0 if it starts with none.
std::size_t sequence_length(std::string_view text) {
  auto byte = [&](std::size_t i) {
    return i < text.size() ? static_cast<unsigned char>(text[i]) : 0u;
  };
  auto follows = [&](std::size_t i, unsigned low = 0x80, unsigned high = 0xBF) {
    return byte(i) >= low && byte(i) <= high;
  };
  unsigned first = byte(0);
  if (first < 0x80) return 1;
  if (first >= 0xC2 && first <= 0xDF) return follows(1) ? 2 : 0;
  if (first >= 0xE0 && first <= 0xEF) {
    // Overlong forms and surrogates are no characters.
    unsigned low = first == 0xE0 ? 0xA0 : 0x80;
    unsigned high = first == 0xED ? 0x9F : 0xBF;
    return follows(1, low, high) && follows(2) ? 3 : 0;
  }
  if (first >= 0xF0 && first <= 0xF4) {
    unsigned low = first == 0xF0 ? 0x90 : 0x80;
    unsigned high = first == 0xF4 ? 0x8F : 0xBF;
    return follows(1, low, high) && follows(2) && follows(3) ? 4 : 0;
  }
  return 0;
}

bool is_plain(std::string_view text) {
  return std::all_of(text.begin(), text.end(),
                     [](char c) { return static_cast<unsigned char>(c) < 0x80; });
}

}  // namespace

std::string clean_text(std::string_view raw) {
  if (raw.size() <= kMaxNameBytes && is_plain(raw)) return std::string(raw);
  std::string clean;
  clean.reserve(std::min(raw.size(), kMaxNameBytes));
  while (!raw.empty()) {
    std::size_t length = sequence_length(raw);
    std::string_view piece = length ? raw.substr(0, length) : kReplacement;
    if (clean.size() + piece.size() + kEllipsis.size() > kMaxNameBytes) {
      clean += kEllipsis;
      break;
    }
    clean += piece;
    raw.remove_prefix(std::max<std::size_t>(length, 1));
  }
  return clean;
}

StringId StringTable::id(std::string_view raw) {
  if (auto known = ids_.find(raw); known != ids_.end()) return known->second;
  std::string clean = clean_text(raw);
  if (auto known = ids_.find(clean); known != ids_.end()) return known->second;
  auto id = static_cast<StringId>(texts_.size());
  texts_.push_back(std::move(clean));
  ids_.emplace(texts_.back(), id);
  return id;
}

}  // namespace stallscope::symbols
