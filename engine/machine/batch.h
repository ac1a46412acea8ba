// SPDX-License-Identifier: Apache-2.0
// Accesses on their way through a machine together; see passes.h.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>

#if defined(__SSE2__)
#include <immintrin.h>
#endif

namespace stallscope::machine {

// In lists of accesses: an index times two, plus one where the access goes to several lines.
constexpr std::uint32_t entry_of(std::uint32_t index, bool crosses) { return index << 1 | crosses; }
constexpr std::uint32_t index_of(std::uint32_t entry) { return entry >> 1; }
constexpr bool crosses(std::uint32_t entry) { return entry & 1; }

// What was gathered and is to enter the machine. Arrays by access: data first, fetches from
// kFirstFetch on.
struct Batch {
  static constexpr std::uint32_t kRoom = 2048;        // data accesses, and as many fetches
  static constexpr std::uint32_t kMost = 128;         // data accesses that are added at once
  static constexpr std::uint32_t kFetchesAtOnce = 4;  // and fetches
  static constexpr std::uint32_t kFirstFetch = kRoom + 2 * kMost;
  static constexpr std::uint32_t kAll = 2 * kFirstFetch;

  // How much was gathered. Who adds much in a row works on a copy.
  struct Place {
    std::uint64_t data = 0;
    std::uint64_t fetches = 0;
    // For kMost accesses and kFetchesAtOnce fetches.
    bool has_room() const { return ((data | fetches) & ~std::uint64_t{kRoom - 1}) == 0; }
  };

  // Fetches from lines of code (their first bytes), at most kFetchesAtOnce; reads as many.
  void add_fetches(Place& to, const std::uint64_t* lines, std::uint64_t count) {
    std::memcpy(addresses + kFirstFetch + to.fetches, lines, kFetchesAtOnce * sizeof *lines);
    store_four(before + to.fetches, static_cast<std::uint32_t>(to.data), 0);
    to.fetches += count;
  }
  // What operations in a row access, those that did not happen included, at most kMost.
  // `operation_spans` of these operations. Reads up to three words more than there are.
  void add_data(Place& to, const std::uint64_t* accessed, std::uint64_t count,
                std::uint32_t operation, const std::uint8_t* operation_spans) {
    std::uint64_t at = to.data;
    to.data += count;
    for (; at < to.data; at += 4, accessed += 4, operation += 4, operation_spans += 4) {
      std::memcpy(addresses + at, accessed, 4 * sizeof *accessed);
      std::memcpy(spans + at, operation_spans, 4);
      store_four(operations + at, operation, 1);
    }
  }
  // How far an access reaches beyond its first byte, as far as a byte can say; more than nothing
  // for one that may not happen, so that kNoAddress reaches into another line.
  static std::uint8_t span_of(std::uint32_t size, bool guarded) {
    const std::uint32_t least = guarded ? 2 : 1;
    return static_cast<std::uint8_t>(std::min(std::max(size, least) - 1, 255u));
  }

  std::uint64_t addresses[kAll];
  std::uint32_t operations[kFirstFetch];  // of data
  std::uint32_t before[kFirstFetch];      // data accesses that came before each fetch
  std::uint8_t spans[kFirstFetch];        // of data, see span_of()
  // For the passes.
  std::uint64_t last[kFirstFetch];  // byte; of data accesses that cross lines only
  std::uint64_t victims[kAll];      // tags thrown out of the watched cache; where it missed only

 private:
  // value, value + step, ...
  static void store_four(std::uint32_t* to, std::uint32_t value, std::uint32_t step) {
#if defined(__SSE2__)
    const auto first = static_cast<int>(value), by = static_cast<int>(step);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to),
                     _mm_add_epi32(_mm_set1_epi32(first), _mm_set_epi32(3 * by, 2 * by, by, 0)));
#else
    for (std::uint32_t i = 0; i < 4; ++i) to[i] = value + i * step;
#endif
  }
};

// How far out an access had to go: the depth of the cache that served it, and, times the number of
// such depths, that of the TLB. 0: the first ones had it.
using Outcome = std::uint8_t;
constexpr std::uint32_t kOutcomes = 16;  // at most

// Accesses that the first levels did not have, of several batches, in their order. Goes from one
// thread to another, so that every byte counts.
struct Missed {
  static constexpr std::uint32_t kEnough = 8192;  // accesses; then it is handed on
  static constexpr std::uint32_t kRoom = kEnough + Batch::kAll;
  static constexpr std::uint32_t kFetch = 0xffffffff;  // in place of an operation
  // What was missed, and whether the access goes to several of them.
  static constexpr std::uint8_t kLine = 1, kPage = 2, kLines = 4, kPages = 8;

  bool has_enough() const { return count >= kEnough; }
  void clear() { count = 0; }

  std::uint32_t count = 0;
  std::uint64_t addresses[kRoom];
  std::uint32_t operations[kRoom];
  std::uint8_t what[kRoom];
  std::uint64_t victims[kRoom];  // as above
  std::uint64_t last[kRoom];     // byte; of those that cross lines or pages only
};

// How accesses of a Missed fared.
struct Outcomes {
  Outcome of(std::uint32_t index) const {
    return static_cast<Outcome>(caches[index] + tlbs[index]);
  }
  Outcome caches[Missed::kRoom], tlbs[Missed::kRoom];
};

}  // namespace stallscope::machine
