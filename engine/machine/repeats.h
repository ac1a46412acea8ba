// SPDX-License-Identifier: Apache-2.0
// The filter of sieve/sieve.h once more, behind the first cache: an access to the line that its set
// saw last changes nothing in the set and is a hit. A loop whose lines are many to the first cache
// and few to the next (a column of a matrix) goes no further than this.
//
// Worth it for some programs only, so it rests for a while where it finds too little.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <vector>

#include "machine/batch.h"
#include "machine/level.h"

namespace stallscope::machine {

class Repeats {
 public:
  explicit Repeats(const Level& level)
      : bits_(level.bits), mask_(level.geometry().sets - 1), last_(serves(level) ? mask_ + 1 : 0) {
    forget();
  }

  // Takes the repeats out of the list; how many entries are left.
  // `crossing`: some of them may cross lines.
  std::uint32_t drop(std::uint32_t* list, std::uint32_t count, const std::uint64_t* addresses,
                     const std::uint64_t* last_bytes, bool crossing) {
    if (last_.empty()) return count;
    if (rest_ > 0) {
      if (--rest_ == 0) forget();
      return count;
    }
    const std::uint32_t kept = crossing ? kept_of<true>(list, count, addresses, last_bytes)
                                        : kept_of<false>(list, count, addresses, last_bytes);
    if (kept > count - count / kWorth) rest_ = kRest;
    return kept;
  }

 private:
  template <bool Crossing>
  std::uint32_t kept_of(std::uint32_t* list, std::uint32_t count, const std::uint64_t* addresses,
                        const std::uint64_t* last_bytes) {
    const std::uint32_t bits = bits_;
    const std::uint64_t mask = mask_;
    std::uint64_t* const last = last_.data();
    std::uint64_t kept = 0;
    for (std::uint64_t i = 0; i < count; ++i) {
      const std::uint32_t entry = list[i];
      list[kept] = entry;
      if (Crossing && crosses(entry)) [[unlikely]] {
        forget(addresses[index_of(entry)] >> bits, last_bytes[index_of(entry)] >> bits);
        ++kept;
        continue;
      }
      const std::uint64_t line = address_of_single(addresses, entry) >> bits;
      kept += last[line & mask] != line;
      last[line & mask] = line;
    }
    return static_cast<std::uint32_t>(kept);
  }

  static constexpr std::uint64_t kNone = ~std::uint64_t{0};
  static constexpr std::uint64_t kMostSets = 2048;  // what it keeps stays near the host's core
  static constexpr std::uint32_t kWorth = 4;        // of so many one must be a repeat
  static constexpr std::uint32_t kRest = 64;        // lists

  static bool serves(const Level& level) {
    const std::uint64_t sets = level.geometry().sets;
    return level.fill_settles && std::has_single_bit(sets) && sets <= kMostSets;
  }
  void forget() { std::fill(last_.begin(), last_.end(), kNone); }
  void forget(std::uint64_t from, std::uint64_t to) {
    if (to - from > mask_) return forget();
    for (std::uint64_t line = from; line <= to; ++line) last_[line & mask_] = kNone;
  }

  std::uint32_t bits_;
  std::uint64_t mask_;
  std::vector<std::uint64_t> last_;  // line that each set saw
  std::uint32_t rest_ = 0;           // lists until it begins anew
};

}  // namespace stallscope::machine
