// SPDX-License-Identifier: Apache-2.0
// Which moments are the latest access of some page: a bit for each moment, and over the bits three
// levels of running counts, so that the pages accessed after a moment are counted in constant time.
// Time only moves forward: a moment is taken by set_next and given up by clear; who learns late
// when a page was accessed lets moments pass and takes them afterwards, with set. When `full`, the
// owner renumbers: it asks renumbered(old) for each of its moments, then calls renumber().
//
// A count is of the bits before its place within its own level's span:
//   words   64 bits    one 16-bit count each, 32 to a row of 64 bytes
//   rows    2,048      one 16-bit count each, 32 to a row
//   spans   65,536     one 32-bit count each, 32 to a row
//   areas   2,097,152  one 32-bit count each
// Counts of places that time has not reached yet are wrong and are set when it gets there; so a
// clear may always update whole rows, which is one or two vector instructions.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <vector>

#include "stack/page_table.h"

namespace stallscope::stack {

class RecencyBits {
 public:
  // What a hot loop needs, by value: it works on a copy of its own, which no store through a
  // pointer can change behind the compiler's back, and gives it back with put().
  struct Cursor {
    std::uint64_t* words;
    std::uint16_t *in_row, *in_span;
    std::uint32_t *in_area, *areas;
    std::uint32_t next, end, live;

    bool full() const { return next == end; }
    // Takes the next moment; not when full. Moments start at 1.
    STALLSCOPE_INLINE std::uint32_t set_next() {
      const std::uint32_t moment = next++;
      if (moment % 64 == 0) [[unlikely]]
        enter_word(*this, moment / 64);
      words[moment / 64] |= std::uint64_t{1} << (moment % 64);
      ++live;
      return moment;
    }
    // Pages whose latest access is after `moment`.
    STALLSCOPE_INLINE std::uint32_t after(std::uint32_t moment) const {
      return live - upto(moment);
    }
    STALLSCOPE_INLINE void clear(std::uint32_t moment) {
      words[moment / 64] &= ~(std::uint64_t{1} << (moment % 64));
      add_after<-1>(moment);
    }
    // Takes a moment that is past and free.
    STALLSCOPE_INLINE void set(std::uint32_t moment) {
      words[moment / 64] |= std::uint64_t{1} << (moment % 64);
      add_after<1>(moment);
    }
    // Lets moments pass, as far as `to`, which nobody takes yet; not past the end.
    STALLSCOPE_INLINE void pass(std::uint32_t to) {
      for (std::uint32_t word = (next + 63) / 64; word * 64 < to; ++word) enter_word(*this, word);
      next = to;
    }
    STALLSCOPE_INLINE void prefetch(std::uint32_t moment) const {
      __builtin_prefetch(&words[moment / 64], 1);
      __builtin_prefetch(&in_row[moment / kRowBits * kRow], 1);
    }
    // The bits up to `moment` and with it.
    STALLSCOPE_INLINE std::uint32_t upto(std::uint32_t moment) const {
      const std::uint64_t below = words[moment / 64] << (63 - moment % 64);
      return areas[moment / kAreaBits] + in_area[moment / kSpanBits] + in_span[moment / kRowBits] +
             in_row[moment / 64] + static_cast<std::uint32_t>(std::popcount(below));
    }

   private:
    template <int kBy>
    STALLSCOPE_INLINE void add_after(std::uint32_t moment) {
      shift_after<kBy, kRow>(&in_row[moment / kRowBits * kRow], moment / 64 % kRow);
      shift_after<kBy, kRow>(&in_span[moment / kSpanBits * kRow], moment / kRowBits % kRow);
      if (moment / kSpanBits != next / kSpanBits) {
        shift_after<kBy, kSpans>(&in_area[moment / kAreaBits * kSpans],
                                 moment / kSpanBits % kSpans);
        for (std::uint32_t i = moment / kAreaBits + 1, n = next / kAreaBits; i <= n; ++i)
          areas[i] += static_cast<std::uint32_t>(kBy);
      }
      live += static_cast<std::uint32_t>(kBy);
    }
  };

  explicit RecencyBits(std::uint32_t moments) { allocate(moments); }
  RecencyBits(const RecencyBits& other);
  RecencyBits(RecencyBits&&) = default;
  RecencyBits& operator=(RecencyBits&&) = default;

  const Cursor& cursor() const { return at_; }
  void put(const Cursor& cursor) { at_ = cursor; }

  std::uint32_t live() const { return at_.live; }
  bool full() const { return at_.full(); }
  std::uint32_t set_next() { return at_.set_next(); }
  std::uint32_t after(std::uint32_t moment) const { return at_.after(moment); }
  void clear(std::uint32_t moment) { at_.clear(moment); }
  void set(std::uint32_t moment) { at_.set(moment); }
  std::uint64_t bytes() const {
    return words_.size() * 8 + (in_row_.size() + in_span_.size()) * 2 + in_area_.size() * 4 +
           areas_.size() * 4;
  }

  // The moment that a live one becomes: its place among the live ones.
  std::uint32_t renumbered(std::uint32_t moment) const { return at_.upto(moment); }
  // Moments 1 to live() are set again, all others are to come; there are then at least four times
  // as many as live ones.
  void renumber();

 private:
  static constexpr std::uint32_t kRow = 32, kSpans = 32;
  static constexpr std::uint32_t kRowBits = 64 * kRow, kSpanBits = kRowBits * kRow,
                                 kAreaBits = kSpanBits * kSpans;

  // Without branches: the mask is a window of zeros, then ones.
  template <int kBy, std::uint32_t kSize, typename Count>
  STALLSCOPE_INLINE static void shift_after(Count* row, std::uint32_t place) {
    const Count* mask = kAfter<Count>.mask + (kRow - 1 - place);
#pragma GCC ivdep  // the mask is not in the row
    for (std::uint32_t i = 0; i < kSize; ++i) row[i] = static_cast<Count>(row[i] + kBy * mask[i]);
  }
  template <typename Count>
  struct After {
    Count mask[2 * kRow] = {};
    constexpr After() { std::fill(mask + kRow, mask + 2 * kRow, Count{1}); }
  };
  template <typename Count>
  static constexpr After<Count> kAfter{};

  void allocate(std::uint32_t moments);
  void point(std::uint32_t next, std::uint32_t end, std::uint32_t live);
  static void enter_word(Cursor at, std::uint32_t word);

  LargeArray<std::uint64_t> words_;
  LargeArray<std::uint16_t> in_row_, in_span_;
  LargeArray<std::uint32_t> in_area_, areas_;
  Cursor at_{};
};

}  // namespace stallscope::stack
