// SPDX-License-Identifier: Apache-2.0
// LRU sets without a branch, for x86-64 with AVX-512 or AVX2. All tags of a set are compared at
// once; then those up to the match (or all, when there is none) move back by one.
// A branch on the position of the match, as in Queue::shift, is mispredicted on most accesses that
// do not go to the most recent line, and costs more than the whole of this.
#pragma once

#if defined(__x86_64__)
#include <immintrin.h>

#include <bit>

#include "machine/sets.h"

namespace stallscope::machine {

// Sets of up to 8 * Vectors ways whose stride is 8 * Vectors.
template <unsigned Vectors>
struct LruAvx512 {
  __attribute__((target("avx512f"))) static Touched touch(Sets& s, std::uint64_t set,
                                                          std::uint64_t key, std::uint64_t flags) {
    std::uint64_t* tags = s.tags + set * (8 * Vectors);
    const __m512i any = _mm512_set1_epi64(kFlags);
    const __m512i wanted = _mm512_set1_epi64(static_cast<long long>(key | kFlags));
    __m512i old[Vectors];
    std::uint64_t match = 0;
    for (unsigned v = 0; v < Vectors; ++v) {
      old[v] = _mm512_load_si512(tags + 8 * v);
      match |= std::uint64_t{_mm512_cmpeq_epi64_mask(_mm512_or_si512(old[v], any), wanted)}
               << 8 * v;
    }
    // Ones up to and with the match; all ways when there is none.
    const std::uint64_t moved = (match ^ (match - 1)) & s.all_ways;
    const std::uint64_t tag = tags[63 - std::countl_zero(moved)];
    const std::uint64_t first = match ? (tag | flags) & ~kPrefetched : key | flags;
    __m512i before = _mm512_set1_epi64(static_cast<long long>(first));
    for (unsigned v = 0; v < Vectors; ++v) {
      const auto mask = static_cast<__mmask8>(moved >> 8 * v);
      _mm512_store_si512(tags + 8 * v, _mm512_mask_alignr_epi64(old[v], mask, old[v], before, 7));
      before = old[v];
    }
    return {tag, match != 0};
  }

  // The same where no tag has a flag: the order is all there is.
  __attribute__((target("avx512f"))) static Touched enter(const Sets& s, std::uint64_t set,
                                                          std::uint64_t key) {
    std::uint64_t* tags = s.tags + set * (8 * Vectors);
    const __m512i wanted = _mm512_set1_epi64(static_cast<long long>(key));
    const std::uint64_t victim = tags[s.ways - 1];
    __m512i old[Vectors];
    std::uint64_t match = 0;
    for (unsigned v = 0; v < Vectors; ++v) {
      old[v] = _mm512_load_si512(tags + 8 * v);
      match |= std::uint64_t{_mm512_cmpeq_epi64_mask(old[v], wanted)} << 8 * v;
    }
    const std::uint64_t moved = (match ^ (match - 1)) & s.all_ways;
    __m512i before = wanted;
    for (unsigned v = 0; v < Vectors; ++v) {
      const auto mask = static_cast<__mmask8>(moved >> 8 * v);
      _mm512_store_si512(tags + 8 * v, _mm512_mask_alignr_epi64(old[v], mask, old[v], before, 7));
      before = old[v];
    }
    return {victim, match != 0};
  }

  __attribute__((target("avx512f"))) static bool mark(Sets& s, std::uint64_t set, std::uint64_t key,
                                                      std::uint64_t flags) {
    std::uint64_t* tags = s.tags + set * (8 * Vectors);
    const __m512i any = _mm512_set1_epi64(kFlags);
    const __m512i wanted = _mm512_set1_epi64(static_cast<long long>(key | kFlags));
    std::uint64_t match = 0;
    for (unsigned v = 0; v < Vectors; ++v) {
      const __m512i all = _mm512_or_si512(_mm512_load_si512(tags + 8 * v), any);
      match |= std::uint64_t{_mm512_cmpeq_epi64_mask(all, wanted)} << 8 * v;
    }
    if (match) tags[std::countr_zero(match)] |= flags;
    return match != 0;
  }
};

// Ones up to and with the lowest one, all where there is none. Masks stay masks: on the way through
// a register of the other kind everything behind would wait.
__attribute__((target("avx512f,avx512dq"))) inline __mmask8 up_to_match(__mmask8 match) {
  return _kxor_mask8(match, _kadd_mask8(match, __mmask8{0xff}));
}

// Sets of eight ways.
struct LruEight {
  __attribute__((target("avx512f,avx512vl,avx512dq"))) static Touched enter(const Sets& s,
                                                                            std::uint64_t set,
                                                                            std::uint64_t key) {
    std::uint64_t* tags = s.tags + set * 8;
    const __m512i wanted = _mm512_set1_epi64(static_cast<long long>(key));
    const __m512i old = _mm512_load_si512(tags);
    const std::uint64_t victim = tags[7];
    const __mmask8 match = _mm512_cmpeq_epi64_mask(old, wanted);
    _mm512_store_si512(tags, _mm512_mask_alignr_epi64(old, up_to_match(match), old, wanted, 7));
    return {victim, match != 0};
  }
};

// Sets of sixteen ways.
struct LruSixteen {
  __attribute__((target("avx512f,avx512vl,avx512dq"))) static Touched enter(const Sets& s,
                                                                            std::uint64_t set,
                                                                            std::uint64_t key) {
    std::uint64_t* tags = s.tags + set * 16;
    const __m512i wanted = _mm512_set1_epi64(static_cast<long long>(key));
    const __m512i first = _mm512_load_si512(tags), second = _mm512_load_si512(tags + 8);
    const std::uint64_t victim = tags[15];
    const __mmask16 match = _mm512_kunpackb(_mm512_cmpeq_epi64_mask(second, wanted),
                                            _mm512_cmpeq_epi64_mask(first, wanted));
    const __mmask16 moved = _kxor_mask16(match, _kadd_mask16(match, __mmask16{0xffff}));
    _mm512_store_si512(
        tags, _mm512_mask_alignr_epi64(first, static_cast<__mmask8>(moved), first, wanted, 7));
    _mm512_store_si512(
        tags + 8, _mm512_mask_alignr_epi64(
                      second, static_cast<__mmask8>(_kshiftri_mask16(moved, 8)), second, first, 7));
    return {victim, match != 0};
  }
};

// Sets of four ways, with the narrower vectors of AVX-512.
struct LruFour {
  __attribute__((target("avx512f,avx512vl,avx512dq"))) static Touched enter(const Sets& s,
                                                                            std::uint64_t set,
                                                                            std::uint64_t key) {
    std::uint64_t* tags = s.tags + set * 4;
    auto* const place = reinterpret_cast<__m256i*>(tags);
    const __m256i wanted = _mm256_set1_epi64x(static_cast<long long>(key));
    const std::uint64_t victim = tags[3];
    const __m256i old = _mm256_load_si256(place);
    const __mmask8 match = _mm256_cmpeq_epi64_mask(old, wanted);
    _mm256_store_si256(place, _mm256_mask_alignr_epi64(old, up_to_match(match), old, wanted, 3));
    return {victim, match != 0};
  }
};

// Sets of up to 4 * Vectors ways whose stride is 4 * Vectors.
template <unsigned Vectors>
struct LruAvx2 {
  __attribute__((target("avx2"))) static Touched touch(Sets& s, std::uint64_t set,
                                                       std::uint64_t key, std::uint64_t flags) {
    std::uint64_t* tags = s.tags + set * (4 * Vectors);
    const __m256i any = _mm256_set1_epi64x(kFlags);
    const __m256i wanted = _mm256_set1_epi64x(static_cast<long long>(key | kFlags));
    __m256i old[Vectors];
    std::uint64_t match = 0;
    for (unsigned v = 0; v < Vectors; ++v) {
      old[v] = _mm256_load_si256(reinterpret_cast<const __m256i*>(tags + 4 * v));
      const __m256i equal = _mm256_cmpeq_epi64(_mm256_or_si256(old[v], any), wanted);
      match |= static_cast<std::uint64_t>(_mm256_movemask_pd(_mm256_castsi256_pd(equal))) << 4 * v;
    }
    const std::uint64_t moved = (match ^ (match - 1)) & s.all_ways;
    const int position = 63 - std::countl_zero(moved);
    const std::uint64_t tag = tags[position];
    const std::uint64_t first = match ? (tag | flags) & ~kPrefetched : key | flags;
    shift_back(tags, old, position + 1, _mm256_set1_epi64x(static_cast<long long>(first)));
    return {tag, match != 0};
  }

  // The same where no tag has a flag.
  __attribute__((target("avx2"))) static Touched enter(const Sets& s, std::uint64_t set,
                                                       std::uint64_t key) {
    std::uint64_t* tags = s.tags + set * (4 * Vectors);
    const __m256i wanted = _mm256_set1_epi64x(static_cast<long long>(key));
    const std::uint64_t victim = tags[s.ways - 1];
    __m256i old[Vectors];
    std::uint64_t match = 0;
    for (unsigned v = 0; v < Vectors; ++v) {
      old[v] = _mm256_load_si256(reinterpret_cast<const __m256i*>(tags + 4 * v));
      const __m256i equal = _mm256_cmpeq_epi64(old[v], wanted);
      match |= static_cast<std::uint64_t>(_mm256_movemask_pd(_mm256_castsi256_pd(equal))) << 4 * v;
    }
    const std::uint64_t moved = (match ^ (match - 1)) & s.all_ways;
    shift_back(tags, old, 64 - std::countl_zero(moved), wanted);
    return {victim, match != 0};
  }

  __attribute__((target("avx2"))) static bool mark(Sets& s, std::uint64_t set, std::uint64_t key,
                                                   std::uint64_t flags) {
    std::uint64_t* tags = s.tags + set * (4 * Vectors);
    const __m256i any = _mm256_set1_epi64x(kFlags);
    const __m256i wanted = _mm256_set1_epi64x(static_cast<long long>(key | kFlags));
    std::uint64_t match = 0;
    for (unsigned v = 0; v < Vectors; ++v) {
      const __m256i old = _mm256_load_si256(reinterpret_cast<const __m256i*>(tags + 4 * v));
      const __m256i equal = _mm256_cmpeq_epi64(_mm256_or_si256(old, any), wanted);
      match |= static_cast<std::uint64_t>(_mm256_movemask_pd(_mm256_castsi256_pd(equal))) << 4 * v;
    }
    if (match) tags[std::countr_zero(match)] |= flags;
    return match != 0;
  }

 private:
  // The first `count` tags move back by one, and `first` comes in front of them.
  __attribute__((target("avx2"))) static void shift_back(std::uint64_t* tags,
                                                         const __m256i (&old)[Vectors], int count,
                                                         __m256i first) {
    const __m256i end = _mm256_set1_epi64x(count);
    __m256i lane = _mm256_set_epi64x(3, 2, 1, 0);
    __m256i before = first;
    for (unsigned v = 0; v < Vectors; ++v) {
      const __m256i turned = _mm256_permute4x64_epi64(old[v], 0x93);
      const __m256i shifted = _mm256_blend_epi32(turned, before, 3);
      const __m256i moves = _mm256_cmpgt_epi64(end, lane);
      _mm256_store_si256(reinterpret_cast<__m256i*>(tags + 4 * v),
                         _mm256_blendv_epi8(old[v], shifted, moves));
      before = turned;
      lane = _mm256_add_epi64(lane, _mm256_set1_epi64x(4));
    }
  }
};

}  // namespace stallscope::machine
#endif
