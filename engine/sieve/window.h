/* SPDX-License-Identifier: Apache-2.0 */
/* Accesses of a batch that go where one of the few before them went, with nothing of the same set
   in between: sixteen accesses at a time, each compared with the three before it. Needs no memory
   of what sets saw, and finds what loops repeat from round to round.

   What it does not know it leaves: accesses that may go to several lines, and addresses above
   those that programs under Valgrind have. */
#ifndef STALLSCOPE_WINDOW_H
#define STALLSCOPE_WINDOW_H

#include "sieve/sieve.h"

/* What has to be looked up of each access of a batch. */
#define SS_MARK_LINE 1u
#define SS_MARK_PAGE 2u
#define SS_MARK_LINES 4u /* it goes to several lines */
#define SS_MARK_PAGES 8u
struct ss_marks {
  uint8_t of[SS_FIRST_FETCH + 64]; /* by index of data, or of fetches */
};

/* An access that may go to several lines; its last byte. */
static __attribute__((noinline, unused)) uint64_t ss_filter_wide(const struct ss_gate* gate,
                                                                 uint64_t address, uint32_t size,
                                                                 uint8_t* mark) {
  const uint64_t end = address + size - 1, last = end < address ? ~0ULL : end;
  const uint64_t first_line = address >> gate->line_bits, last_line = last >> gate->line_bits;
  const uint64_t first_page = address >> gate->page_bits, last_page = last >> gate->page_bits;
  for (uint64_t line = first_line; line <= last_line; line++)
    gate->lines[line & gate->line_mask] = line;
  for (uint64_t page = first_page; page <= last_page; page++)
    gate->pages[page & gate->page_mask] = page;
  *mark = (uint8_t)(SS_MARK_LINE | SS_MARK_PAGE | (first_line != last_line) * SS_MARK_LINES |
                    (first_page != last_page) * SS_MARK_PAGES);
  return last;
}

/* Whether it is looked at apart: it may go to several lines, did not happen, or is a prefetch. */
SS_SIEVE int ss_is_apart(uint64_t address, uint32_t span, uint64_t offset_mask) {
  return (address & offset_mask) + span > offset_mask || (offset_mask >= 255 && span == 255);
}

/* One of these; 1 if it does not count: it did not happen, or is a prefetch. `sizes` by operation,
   SS_PREFETCH of prefetches; `last` gets the last bytes of accesses to several lines. */
static __attribute__((noinline, unused)) uint64_t ss_filter_apart(const struct ss_gate* gate,
                                                                  const struct ss_batch* batch,
                                                                  uint64_t i, const uint32_t* sizes,
                                                                  uint64_t* last,
                                                                  struct ss_marks* marks) {
  const uint64_t address = batch->addresses[i];
  const uint32_t size = sizes[batch->operations[i]];
  marks->of[i] = 0;
  if (address != SS_NO_ADDRESS)
    last[i] = ss_filter_wide(gate, address, size == SS_PREFETCH ? 1 : size, &marks->of[i]);
  return address == SS_NO_ADDRESS || size == SS_PREFETCH;
}

/* Accesses that a window has left, in their order. */
struct ss_rest {
  uint32_t count;
  uint32_t lookups; /* that they need as far as the window knows: of lines and pages */
  uint32_t indices[SS_FIRST_FETCH + 16]; /* some may be written behind the last */
};

#if defined(__x86_64__)
/* The bits of line numbers, as vectors. */
struct ss_window_bits {
  __m512i any, line_set; /* that tell lines apart, and their sets */
  __m512i page, page_set;
};

SS_AVX512 static inline struct ss_window_bits ss_window_bits_of(const struct ss_gate* gate) {
  const uint32_t shift = gate->page_bits - gate->line_bits;
  const uint64_t below = shift < 32 ? (1ULL << shift) - 1 : 0xffffffff;
  const uint64_t page_set = shift < 32 ? gate->page_mask << shift : 0;
  const struct ss_window_bits bits = {
      _mm512_set1_epi32(-1), _mm512_set1_epi32((int)gate->line_mask),
      _mm512_set1_epi32((int)~(uint32_t)below), _mm512_set1_epi32((int)page_set)};
  return bits;
}

/* Those that are near. `away` are the differences to the numbers one, two and three before. */
SS_AVX512 static inline __mmask16 ss_near(const __m512i away[3], __m512i same, __m512i set) {
  __mmask16 near = _mm512_testn_epi32_mask(away[2], same);
  for (int back = 1; back >= 0; back--) {
    const __mmask16 meets = _mm512_testn_epi32_mask(away[back], set);
    near = (__mmask16)(_mm512_testn_epi32_mask(away[back], same) | (near & (__mmask16)~meets));
  }
  return near;
}

/* Marks all data of a batch. With `rest`, lists what is left; without, looks at accesses apart by
   itself. Returns how many of these do not count. */
SS_AVX512 static inline __attribute__((always_inline)) uint64_t ss_window(
    const struct ss_gate* gate, const struct ss_batch* batch, const uint32_t* sizes, uint64_t* last,
    struct ss_marks* marks, struct ss_rest* rest) {
  const __mmask16 all = 0xffff; /* the unmasked forms make GCC 12 warn */
  const struct ss_window_bits bits = ss_window_bits_of(gate);
  const __m512i low = _mm512_set_epi32(30, 28, 26, 24, 22, 20, 18, 16, 14, 12, 10, 8, 6, 4, 2, 0);
  const __m512i offset = _mm512_set1_epi32((int)((1u << gate->line_bits) - 1));
  const __m512i line_bits = _mm512_set1_epi64((long long)gate->line_bits);
  const __m512i too_high = _mm512_set1_epi64((long long)~0x7fffffffULL);
  __m512i before = bits.any; /* no access that is not too high goes to that line */
  __m512i index = _mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
  uint64_t absent = 0;
  uint32_t count = 0, lookups = 0;
  for (uint64_t i = 0; i < batch->data; i += 16) {
    const uint64_t left = batch->data - i;
    const __mmask16 within = (__mmask16)(left < 16 ? (1u << left) - 1 : 0xffff);
    const __m512i first = _mm512_loadu_si512(batch->addresses + i);
    const __m512i second = _mm512_loadu_si512(batch->addresses + i + 8);
    const __m512i first_line = _mm512_maskz_srlv_epi64(0xff, first, line_bits);
    const __m512i second_line = _mm512_maskz_srlv_epi64(0xff, second, line_bits);
    const __m512i line = _mm512_maskz_permutex2var_epi32(all, first_line, low, second_line);
    const __m512i within_line =
        _mm512_and_si512(_mm512_maskz_permutex2var_epi32(all, first, low, second), offset);
    const __m512i span = _mm512_maskz_cvtepu8_epi32(
        all, _mm_loadu_si128((const __m128i*)(const void*)(batch->spans + i)));
    const __mmask16 apart =
        _mm512_mask_cmpgt_epu32_mask(within, _mm512_add_epi32(within_line, span), offset);
    const __mmask8 high =
        _mm512_test_epi64_mask(_mm512_or_si512(first_line, second_line), too_high);
    const __m512i away[3] = {
        _mm512_xor_si512(line, _mm512_maskz_alignr_epi32(all, line, before, 15)),
        _mm512_xor_si512(line, _mm512_maskz_alignr_epi32(all, line, before, 14)),
        _mm512_xor_si512(line, _mm512_maskz_alignr_epi32(all, line, before, 13))};
    __mmask16 lines = within & (__mmask16)~ss_near(away, bits.any, bits.line_set);
    __mmask16 pages = within & (__mmask16)~ss_near(away, bits.page, bits.page_set);
    before = line;
    if (__builtin_expect((apart | high) != 0, 0)) {
      lines = pages = within;
      before = bits.any;
    }
    _mm_storeu_si128((__m128i*)(void*)(marks->of + i),
                     _mm_or_si128(_mm_maskz_set1_epi8(lines, SS_MARK_LINE),
                                  _mm_maskz_set1_epi8(pages, SS_MARK_PAGE)));
    if (rest) {
      const __mmask16 either = lines | pages;
      _mm512_storeu_si512(rest->indices + count, _mm512_maskz_compress_epi32(either, index));
      count += (uint32_t)_mm_popcnt_u32(either);
      lookups += (uint32_t)_mm_popcnt_u32((uint32_t)lines << 16 | pages);
      index = _mm512_add_epi32(index, _mm512_set1_epi32(16));
    } else if (__builtin_expect(apart != 0, 0)) {
      for (uint32_t some = apart; some; some &= some - 1)
        absent +=
            ss_filter_apart(gate, batch, i + (uint32_t)__builtin_ctz(some), sizes, last, marks);
    }
  }
  if (rest) {
    rest->count = count;
    rest->lookups = lookups;
  }
  return absent;
}

SS_AVX512 static __attribute__((noinline)) uint64_t ss_window_alone(const struct ss_gate* gate,
                                                                    const struct ss_batch* batch,
                                                                    const uint32_t* sizes,
                                                                    uint64_t* last,
                                                                    struct ss_marks* marks) {
  return ss_window(gate, batch, sizes, last, marks, 0);
}

SS_AVX512 static __attribute__((noinline)) void ss_window_first(const struct ss_gate* gate,
                                                                const struct ss_batch* batch,
                                                                struct ss_marks* marks,
                                                                struct ss_rest* rest) {
  ss_window(gate, batch, 0, 0, marks, rest);
}
#endif

/* Whether it serves a gate: lines that spans can cross, and pages of whole lines. */
SS_SIEVE int ss_window_serves(const struct ss_gate* gate) {
#if defined(__x86_64__)
  return gate->line_bits < 8 && gate->page_bits >= gate->line_bits && ss_has_avx512();
#else
  return 0;
#endif
}

#endif
