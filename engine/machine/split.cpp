// SPDX-License-Identifier: Apache-2.0
#include "machine/split.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace stallscope::machine {
namespace {

constexpr std::uint8_t kCrossing = Missed::kLines | Missed::kPages;

Split split_from(std::uint32_t first, const std::uint8_t* what, std::uint32_t count,
                 std::uint32_t* lines, std::uint32_t* pages, Split so_far) {
  for (std::uint32_t i = first; i < count; ++i) {
    lines[so_far.lines] = ss_entry(i, (what[i] & Missed::kLines) != 0);
    pages[so_far.pages] = ss_entry(i, (what[i] & Missed::kPages) != 0);
    so_far.lines += what[i] & Missed::kLine;
    so_far.pages += what[i] >> 1 & 1;
    so_far.crossing |= (what[i] & kCrossing) != 0;
  }
  return so_far;
}

#if defined(__x86_64__)
// Sixteen at a time.
__attribute__((target("avx512f,avx512vl,avx512bw,popcnt"))) Split split_avx512(
    const std::uint8_t* what, std::uint32_t count, std::uint32_t* lines, std::uint32_t* pages) {
  constexpr __mmask16 kAll = 0xffff;  // the unmasked forms make GCC 12 warn
  const __m512i one = _mm512_set1_epi32(1);
  __m512i index = _mm512_set_epi32(30, 28, 26, 24, 22, 20, 18, 16, 14, 12, 10, 8, 6, 4, 2, 0);
  Split done{0, 0, false};
  __m128i seen = _mm_setzero_si128();
  std::uint32_t i = 0;
  for (; i + 16 <= count; i += 16) {
    const __m128i some = _mm_loadu_si128(reinterpret_cast<const __m128i*>(what + i));
    const __m512i marks = _mm512_maskz_cvtepu8_epi32(kAll, some);
    seen = _mm_or_si128(seen, some);
    const __mmask16 line = _mm512_test_epi32_mask(marks, one);
    const __mmask16 page = _mm512_test_epi32_mask(marks, _mm512_set1_epi32(Missed::kPage));
    const __m512i line_entries =
        _mm512_or_epi32(index, _mm512_and_epi32(_mm512_maskz_srli_epi32(kAll, marks, 2), one));
    const __m512i page_entries = _mm512_or_epi32(index, _mm512_maskz_srli_epi32(kAll, marks, 3));
    _mm512_storeu_si512(lines + done.lines, _mm512_maskz_compress_epi32(line, line_entries));
    _mm512_storeu_si512(pages + done.pages, _mm512_maskz_compress_epi32(page, page_entries));
    done.lines += static_cast<std::uint32_t>(_mm_popcnt_u32(line));
    done.pages += static_cast<std::uint32_t>(_mm_popcnt_u32(page));
    index = _mm512_add_epi32(index, _mm512_set1_epi32(32));
  }
  done.crossing = _mm_test_epi8_mask(seen, _mm_set1_epi8(kCrossing)) != 0;
  return split_from(i, what, count, lines, pages, done);
}
#endif

}  // namespace

Split split(const std::uint8_t* what, std::uint32_t count, std::uint32_t* lines,
            std::uint32_t* pages) {
#if defined(__x86_64__)
  static const bool avx512 = __builtin_cpu_supports("avx512f") &&
                             __builtin_cpu_supports("avx512vl") &&
                             __builtin_cpu_supports("avx512bw");
  if (avx512) return split_avx512(what, count, lines, pages);
#endif
  return split_from(0, what, count, lines, pages, {0, 0, false});
}

}  // namespace stallscope::machine
