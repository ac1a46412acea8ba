// SPDX-License-Identifier: Apache-2.0
// Virtual to physical addresses: the same, or a seeded permutation of all pages. A permutation is
// computed, not stored, and can be inverted, so a victim's virtual address is always known.
#pragma once

#include <array>
#include <bit>
#include <cstdint>

#include "machine/config.h"

namespace stallscope::machine {

class Mapping {
 public:
  Mapping() = default;
  explicit Mapping(const MappingConfig& config)
      : random_(config.random), page_bits_(std::countr_zero(config.page)) {
    std::uint64_t seed = config.seed;
    for (std::uint64_t& key : keys_) {
      seed += 0x9e3779b97f4a7c15ULL;
      key = mix(seed);
    }
  }

  bool identity() const { return !random_; }

  std::uint64_t physical(std::uint64_t address) {
    return random_ ? remembered<false>(address, to_physical_) : address;
  }
  std::uint64_t virtual_of(std::uint64_t address) {
    return random_ ? remembered<true>(address, to_virtual_) : address;
  }
  std::uint64_t page() const { return std::uint64_t{1} << page_bits_; }

 private:
  // Pages permuted lately.
  static constexpr std::uint64_t kRemembered = 256;
  struct Known {
    std::uint64_t from = ~std::uint64_t{0};  // first byte of a page; this is none
    std::uint64_t to = 0;
  };
  using Memory = std::array<Known, kRemembered>;

  template <bool Inverse>
  std::uint64_t remembered(std::uint64_t address, Memory& memory) {
    const std::uint64_t offset = address & (page() - 1);
    Known& known = memory[(address >> page_bits_) % kRemembered];
    if (known.from != address - offset)
      known = {address - offset, permuted<Inverse>(address - offset)};
    return known.to | offset;
  }

  static constexpr std::uint64_t mix(std::uint64_t x) {
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ULL;
    x = (x ^ x >> 27) * 0x94d049bb133111ebULL;
    return x ^ x >> 31;
  }

  // Of a page's first byte. A Feistel network over the page number, in two halves of which the left
  // takes an odd bit. Pages past 2^48 bytes keep their upper bits: caches index with the lower ones
  // only.
  template <bool Inverse>
  std::uint64_t permuted(std::uint64_t address) const {
    constexpr unsigned kBits = 48;
    const unsigned bits = kBits - page_bits_;
    const unsigned right_bits = bits / 2, left_bits = bits - right_bits;
    const std::uint64_t right_mask = (std::uint64_t{1} << right_bits) - 1;
    const std::uint64_t left_mask = (std::uint64_t{1} << left_bits) - 1;
    const std::uint64_t page = address >> page_bits_;
    std::uint64_t right = page & right_mask, left = page >> right_bits & left_mask;
    for (unsigned i = 0; i < kRounds; ++i) {
      const unsigned round = Inverse ? kRounds - 1 - i : i;
      if (round % 2 == 0)
        left ^= mix(right ^ keys_[round]) & left_mask;
      else
        right ^= mix(left ^ keys_[round]) & right_mask;
    }
    const std::uint64_t kept = address >> kBits << kBits;
    return kept | left << (right_bits + page_bits_) | right << page_bits_;
  }

  static constexpr unsigned kRounds = 4;
  bool random_ = false;
  unsigned page_bits_ = 12;
  std::uint64_t keys_[kRounds]{};
  Memory to_physical_, to_virtual_;
};

}  // namespace stallscope::machine
