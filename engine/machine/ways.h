// SPDX-License-Identifier: Apache-2.0
// The lines of one cache of a machine of several cores: sets in the order of use, the line used
// last in front, each with its coherence state. The last one leaves. New lines come in front (LRU),
// or take the last one's place and have to be used again before they move up (insertion at the end,
// which keeps a part of what does not fit).
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "machine/chips.h"

namespace stallscope::machine {

class Ways {
 public:
  Ways() = default;
  // `page_lines`: as a power of two, the lines of a page, where pages lie in memory at random; 0
  // where they lie as the program sees them.
  Ways(std::uint64_t lines, std::uint32_t ways, bool values, std::uint32_t page_lines = 0)
      : sets_(lines / ways),
        page_lines_(page_lines),
        page_mask_((std::uint64_t{1} << page_lines) - 1),
        ways_(ways),
        words_(lines),
        values_(values ? lines : 0) {
    mask_ = (sets_ & (sets_ - 1)) == 0 ? sets_ - 1 : 0;
  }

  static std::uint64_t word_of(std::uint64_t line, State state) {
    return line << kStateBits | static_cast<std::uint64_t>(state);
  }
  static std::uint64_t line_of(std::uint64_t word) { return word >> kStateBits; }
  static State state_of(std::uint64_t word) { return static_cast<State>(word & kStateMask); }

  // The place of a line in its set, or kNowhere. Places are valid until the set changes.
  static constexpr std::size_t kNowhere = ~std::size_t{0};
  std::size_t find(std::uint64_t line) const {
    const std::size_t first = first_of(line);
    for (std::size_t at = first; at < first + ways_; ++at)
      if (line_of(words_[at]) == line && (words_[at] & kStateMask) != 0) return at;
    return kNowhere;
  }
  // Where the line used last in the set of `line` stands.
  std::size_t first_of(std::uint64_t line) const {
    if (page_lines_) line = scattered(line >> page_lines_) << page_lines_ | (line & page_mask_);
    return (mask_ || sets_ == 1 ? line & mask_ : line % sets_) * ways_;
  }

  std::uint64_t word(std::size_t at) const { return words_[at]; }
  State state(std::size_t at) const { return state_of(words_[at]); }
  void set_state(std::size_t at, State state) {
    words_[at] = (words_[at] & ~kStateMask) | static_cast<std::uint64_t>(state);
  }
  // It becomes the one used last; its new place.
  std::size_t touch(std::size_t at) {
    const std::size_t first = first_of(line_of(words_[at]));
    rotate(first, at);
    return first;
  }

  // What leaves for a line that comes in, in front; a word of 0 when there was room.
  struct Left {
    std::uint64_t word = 0;
    std::uint64_t value = 0;
  };
  Left insert(std::uint64_t line, State state, std::uint64_t value, bool at_the_end = false) {
    const std::size_t first = first_of(line), last = first + ways_ - 1;
    const Left left{(words_[last] & kStateMask) ? words_[last] : 0,
                    values_.empty() ? 0 : values_[last]};
    const bool stays = at_the_end && left.word;  // behind empty places nothing may stand
    if (!stays) rotate(first, last);
    words_[stays ? last : first] = word_of(line, state);
    if (!values_.empty()) values_[stays ? last : first] = value;
    return left;
  }
  void erase(std::size_t at) {
    const std::size_t last = first_of(line_of(words_[at])) + ways_ - 1;
    std::rotate(words_.begin() + diff(at), words_.begin() + diff(at) + 1,
                words_.begin() + diff(last) + 1);
    if (!values_.empty())
      std::rotate(values_.begin() + diff(at), values_.begin() + diff(at) + 1,
                  values_.begin() + diff(last) + 1);
    words_[last] = 0;
  }

  // What a line holds, where values are kept; for tests.
  std::uint64_t value(std::size_t at) const { return values_.empty() ? 0 : values_[at]; }
  void set_value(std::size_t at, std::uint64_t value) {
    if (!values_.empty()) values_[at] = value;
  }

  template <typename Visit>
  void for_each(Visit&& visit) const {
    for (std::size_t at = 0; at < words_.size(); ++at)
      if (words_[at] & kStateMask) visit(line_of(words_[at]), state(at));
  }

 private:
  static constexpr unsigned kStateBits = 3;
  static constexpr std::uint64_t kStateMask = (1u << kStateBits) - 1;
  // Where a page lies: a number that looks random.
  static std::uint64_t scattered(std::uint64_t page) {
    page = (page ^ (page >> 30)) * 0xbf58476d1ce4e5b9ULL;
    page = (page ^ (page >> 27)) * 0x94d049bb133111ebULL;
    return (page ^ (page >> 31)) & 0xffff'ffff;
  }
  static std::ptrdiff_t diff(std::size_t at) { return static_cast<std::ptrdiff_t>(at); }

  void rotate(std::size_t first, std::size_t at) {
    const std::uint64_t word = words_[at];
    for (std::size_t i = at; i > first; --i) words_[i] = words_[i - 1];
    words_[first] = word;
    if (values_.empty()) return;
    const std::uint64_t value = values_[at];
    for (std::size_t i = at; i > first; --i) values_[i] = values_[i - 1];
    values_[first] = value;
  }

  std::uint64_t sets_ = 1;
  std::uint64_t mask_ = 0;
  std::uint32_t page_lines_ = 0;
  std::uint64_t page_mask_ = 0;
  std::size_t ways_ = 0;
  std::vector<std::uint64_t> words_;  // line and state; 0 where there is none
  std::vector<std::uint64_t> values_;
};

}  // namespace stallscope::machine
