// SPDX-License-Identifier: Apache-2.0
// Names and paths, each stored once. Ids are dense and never change, so a table may use them as
// dictionary indexes. Not thread-safe.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <unordered_map>

namespace stallscope::symbols {

using StringId = std::uint32_t;
inline constexpr StringId kNoString = 0;  // the empty text

inline constexpr std::size_t kMaxNameBytes = 4096;

// Text as it may be stored: valid UTF-8 (other bytes become U+FFFD), at most kMaxNameBytes long
// (a longer one ends in "…"). Control characters stay: escaping belongs to each view.
std::string clean_text(std::string_view raw);

class StringTable {
 public:
  StringTable() { id(""); }
  StringTable(const StringTable&) = delete;
  StringTable& operator=(const StringTable&) = delete;

  StringId id(std::string_view raw);
  // Valid for as long as the table lives. An id that the table did not give is the empty text.
  std::string_view text(StringId id) const {
    return id < texts_.size() ? std::string_view(texts_[id]) : std::string_view();
  }
  std::size_t size() const { return texts_.size(); }

 private:
  std::deque<std::string> texts_;  // a deque: the keys below point into it
  std::unordered_map<std::string_view, StringId> ids_;
};

}  // namespace stallscope::symbols
