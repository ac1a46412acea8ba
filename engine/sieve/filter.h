/* SPDX-License-Identifier: Apache-2.0 */
/* The second step of the sieve: which accesses of a batch have to be looked up.

   Most repeats are near: the same line as one of the few accesses before, and nothing of the same
   set in between. Where the host has AVX-512 these are found first (sieve/window.h). What is left
   is compared with what each set saw last, as long as that saves more lookups than it makes
   comparisons. It does not in a loop down the columns of a matrix. */
#ifndef STALLSCOPE_FILTER_H
#define STALLSCOPE_FILTER_H

#include "sieve/window.h"

/* 1 if the set saw another line (or page) last, else 0. */
SS_SIEVE uint64_t ss_is_new(uint64_t* seen, uint64_t mask, uint64_t number) {
  uint64_t* const last = seen + (number & mask);
  const uint64_t is_new = *last != number;
  *last = number;
  return is_new;
}

/* Fetches. `line_bits` and `page_bits` are the gate's, and given
   apart because they are mostly constants. */
SS_SIEVE void ss_filter_code(const struct ss_gate* gate, uint32_t line_bits, uint32_t page_bits,
                             const struct ss_batch* batch, struct ss_marks* marks) {
  const struct ss_gate own = *gate; /* that nobody else can change */
  const uint64_t* const addresses = batch->addresses + SS_FIRST_FETCH;
  const uint64_t count = batch->fetches;
  for (uint64_t i = 0; i < count; i++) {
    const uint64_t line = ss_is_new(own.lines, own.line_mask, addresses[i] >> line_bits);
    const uint64_t page = ss_is_new(own.pages, own.page_mask, addresses[i] >> page_bits);
    marks->of[i] = (uint8_t)(line * SS_MARK_LINE + page * SS_MARK_PAGE);
  }
}

/* One data access; 1 if it does not count. `line_bits` and `page_bits` are the gate's. */
SS_SIEVE uint64_t ss_filter_one(const struct ss_gate* gate, uint32_t line_bits, uint32_t page_bits,
                                const struct ss_batch* batch, uint64_t i, const uint32_t* sizes,
                                uint64_t* last, struct ss_marks* marks) {
  const uint64_t address = batch->addresses[i];
  if (__builtin_expect(ss_is_apart(address, batch->spans[i], (1ULL << line_bits) - 1), 0))
    return ss_filter_apart(gate, batch, i, sizes, last, marks);
  const uint64_t line = ss_is_new(gate->lines, gate->line_mask, address >> line_bits);
  const uint64_t page = ss_is_new(gate->pages, gate->page_mask, address >> page_bits);
  marks->of[i] = (uint8_t)(line * SS_MARK_LINE + page * SS_MARK_PAGE);
  return 0;
}

/* All data; how many do not count. */
SS_SIEVE uint64_t ss_filter_data(const struct ss_gate* gate, uint32_t line_bits, uint32_t page_bits,
                                 const struct ss_batch* batch, const uint32_t* sizes,
                                 uint64_t* last, struct ss_marks* marks) {
  const struct ss_gate own = *gate; /* that nobody else can change */
  uint64_t absent = 0;
  for (uint64_t i = 0; i < batch->data; i++)
    absent += ss_filter_one(&own, line_bits, page_bits, batch, i, sizes, last, marks);
  return absent;
}

/* The same for what a window has left; counts the lookups that are needed now. */
SS_SIEVE uint64_t ss_filter_rest(const struct ss_gate* gate, uint32_t line_bits, uint32_t page_bits,
                                 const struct ss_batch* batch, const struct ss_rest* rest,
                                 const uint32_t* sizes, uint64_t* last, struct ss_marks* marks,
                                 uint64_t* lookups) {
  const struct ss_gate own = *gate;
  const uint64_t count = rest->count;
  uint64_t absent = 0, needed = 0;
  for (uint64_t at = 0; at < count; at++) {
    const uint64_t i = rest->indices[at];
    absent += ss_filter_one(&own, line_bits, page_bits, batch, i, sizes, last, marks);
    needed += (marks->of[i] & SS_MARK_LINE) + (marks->of[i] >> 1 & 1);
  }
  *lookups = needed;
  return absent;
}

/* The bits of most machines. */
#define SS_LINE_BITS 6
#define SS_PAGE_BITS 12
SS_SIEVE int ss_gate_usual(const struct ss_gate* gate) {
  return gate->line_bits == SS_LINE_BITS && gate->page_bits == SS_PAGE_BITS;
}

/* What a batch has to look up, by marks, and what is remembered from batch to batch. Begins as
   zeroes. */
struct ss_lookups {
  struct ss_marks data, code;
  struct ss_rest rest;
  uint32_t alone; /* batches that the window goes on filtering alone */
  uint32_t cold;  /* what sets saw has just been forgotten */
};
#define SS_ALONE 64

#if defined(__x86_64__)
/* The window, and behind it what each set saw last, unless that was of no use lately. */
static inline uint64_t ss_filter_twice(const struct ss_gate* gate, const struct ss_batch* batch,
                                       const uint32_t* sizes, uint64_t* last,
                                       struct ss_lookups* to) {
  if (to->alone) {
    const uint64_t not_counted = ss_window_alone(gate, batch, sizes, last, &to->data);
    if (--to->alone == 0) {
      ss_gate_forget(gate);
      to->cold = 1;
    }
    return not_counted;
  }
  uint64_t lookups;
  ss_window_first(gate, batch, &to->data, &to->rest);
  const uint64_t absent = ss_gate_usual(gate)
                              ? ss_filter_rest(gate, SS_LINE_BITS, SS_PAGE_BITS, batch, &to->rest,
                                               sizes, last, &to->data, &lookups)
                              : ss_filter_rest(gate, gate->line_bits, gate->page_bits, batch,
                                               &to->rest, sizes, last, &to->data, &lookups);
  if (!to->cold && to->rest.lookups < lookups + to->rest.count) to->alone = SS_ALONE;
  to->cold = 0;
  return absent;
}
#endif

/* Returns how many accesses do not count: they did not happen, or are prefetches. */
static inline uint64_t ss_filter(const struct ss_gate* data, const struct ss_gate* code,
                                 const struct ss_batch* batch, const uint32_t* sizes,
                                 uint64_t* last, struct ss_lookups* to) {
  if (ss_gate_usual(code))
    ss_filter_code(code, SS_LINE_BITS, SS_PAGE_BITS, batch, &to->code);
  else
    ss_filter_code(code, code->line_bits, code->page_bits, batch, &to->code);
#if defined(__x86_64__)
  if (ss_window_serves(data)) return ss_filter_twice(data, batch, sizes, last, to);
#endif
  return ss_gate_usual(data)
             ? ss_filter_data(data, SS_LINE_BITS, SS_PAGE_BITS, batch, sizes, last, &to->data)
             : ss_filter_data(data, data->line_bits, data->page_bits, batch, sizes, last,
                              &to->data);
}

/* Of 64 accesses in a row: those that are marked, a bit each. */
SS_SIEVE uint64_t ss_marked(const uint8_t* marks) {
  uint64_t marked = 0;
#if defined(__SSE2__)
  for (uint32_t i = 0; i < 4; i++) {
    const __m128i some = _mm_loadu_si128((const __m128i*)(marks + 16 * i));
    const int none = _mm_movemask_epi8(_mm_cmpeq_epi8(some, _mm_setzero_si128()));
    marked |= (uint64_t)(~(uint32_t)none & 0xffff) << 16 * i;
  }
#else
  for (uint32_t i = 0; i < 64; i++) marked |= (uint64_t)(marks[i] != 0) << i;
#endif
  return marked;
}

/* The bits of accesses from `from` to before `to`, of the 64 from `base` on. */
SS_SIEVE uint64_t ss_within(uint64_t base, uint64_t from, uint64_t to) {
  uint64_t bits = ~0ULL;
  if (base < from) bits &= ~0ULL << (from - base);
  if (base + 64 > to) bits &= ~0ULL >> (base + 64 - to);
  return bits;
}

#endif
