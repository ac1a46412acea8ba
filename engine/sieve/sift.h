/* SPDX-License-Identifier: Apache-2.0 */
/* What the capture tool makes of a stretch of the stream that it sifts: blocks in a row become one
   `sifted` record with what the filter kept of them, all else stays as it is. */
#ifndef STALLSCOPE_SIFT_H
#define STALLSCOPE_SIFT_H

#include "sieve/filter.h"

/* What a filter kept of a batch, in the order of the program, as the capture tool hands it on. */
#define SS_KEPT_SHIFT 28
#define SS_KEPT_OPERATION ((1u << SS_KEPT_SHIFT) - 1)
#define SS_KEPT_FETCH SS_KEPT_OPERATION /* in place of an operation's number */
/* Above the number: what is to be looked up, as marks. */

struct ss_kept {
  uint64_t addresses[SS_BATCH_ALL + 16]; /* some may be written behind the last */
  uint32_t operations[SS_BATCH_ALL + 16];
};

/* The data accesses of a batch that are marked. */
typedef uint32_t ss_keep(const struct ss_batch* batch, const struct ss_marks* marks, uint64_t from,
                         uint64_t to, struct ss_kept* kept, uint32_t count);

static inline uint32_t ss_keep_data(const struct ss_batch* batch, const struct ss_marks* marks,
                                    uint64_t from, uint64_t to, struct ss_kept* kept,
                                    uint32_t count) {
  for (uint64_t base = from & ~63ULL; base < to; base += 64) {
    uint64_t marked = ss_marked(marks->of + base) & ss_within(base, from, to);
    for (; marked; marked &= marked - 1) {
      const uint64_t index = base + (uint64_t)__builtin_ctzll(marked);
      kept->addresses[count] = batch->addresses[index];
      kept->operations[count++] = batch->operations[index] | (uint32_t)marks->of[index]
                                                                 << SS_KEPT_SHIFT;
    }
  }
  return count;
}

#if defined(__x86_64__)
/* Sixteen at a time. */
SS_AVX512 static uint32_t ss_keep_data_avx512(const struct ss_batch* batch,
                                              const struct ss_marks* marks, uint64_t from,
                                              uint64_t to, struct ss_kept* kept, uint32_t count) {
  const __mmask16 all = 0xffff; /* the unmasked forms make GCC 12 warn */
  for (uint64_t base = from; base < to; base += 16) {
    const uint64_t left = to - base;
    const __mmask16 within = (__mmask16)(left < 16 ? (1u << left) - 1 : 0xffff);
    const __m128i mark = _mm_loadu_si128((const __m128i*)(marks->of + base));
    const __mmask16 marked = _mm_mask_test_epi8_mask(within, mark, mark);
    const __mmask8 low = (__mmask8)marked, high = (__mmask8)(marked >> 8);
    const __m512i above =
        _mm512_maskz_slli_epi32(all, _mm512_maskz_cvtepu8_epi32(all, mark), SS_KEPT_SHIFT);
    const __m512i operations = _mm512_or_epi32(_mm512_loadu_si512(batch->operations + base), above);
    _mm512_storeu_si512(
        kept->addresses + count,
        _mm512_maskz_compress_epi64(low, _mm512_loadu_si512(batch->addresses + base)));
    _mm512_storeu_si512(
        kept->addresses + count + _mm_popcnt_u32(low),
        _mm512_maskz_compress_epi64(high, _mm512_loadu_si512(batch->addresses + base + 8)));
    _mm512_storeu_si512(kept->operations + count, _mm512_maskz_compress_epi32(marked, operations));
    count += (uint32_t)_mm_popcnt_u32(marked);
  }
  return count;
}
#endif

static inline ss_keep* ss_keep_here(void) {
#if defined(__x86_64__)
  if (ss_has_avx512()) return ss_keep_data_avx512;
#endif
  return ss_keep_data;
}

/* How many are kept. A block's fetches come before its data. */
static inline uint32_t ss_merge(const struct ss_batch* batch, struct ss_lookups* lookups,
                                struct ss_kept* kept, ss_keep* keep) {
  const uint32_t none = ~0u; /* behind the last entry of a list */
  const uint32_t *line = lookups->code_lines.entries, *page = lookups->code_pages.entries;
  lookups->code_lines.entries[lookups->code_lines.count] = none;
  lookups->code_pages.entries[lookups->code_pages.count] = none;
  uint32_t count = 0;
  uint64_t done = 0;
  while (*line != none || *page != none) {
    const uint32_t entry = *line < *page ? *line : *page;
    const uint32_t is_line = *line == entry, is_page = *page == entry;
    const uint64_t before = batch->before[(entry >> 1) - SS_FIRST_FETCH];
    count = keep(batch, &lookups->data, done, before, kept, count);
    done = before;
    kept->addresses[count] = batch->addresses[entry >> 1];
    kept->operations[count++] = SS_KEPT_FETCH | (is_line | is_page << 1) << SS_KEPT_SHIFT;
    line += is_line;
    page += is_page;
  }
  return keep(batch, &lookups->data, done, batch->data, kept, count);
}

struct ss_sifter {
  struct ss_sieve sieve;
  struct ss_gate data, code;
  const uint32_t* sizes; /* by operation */
  ss_keep* keep;
  int stale; /* the gates have not seen what went by last */
  /* Room to work in. */
  struct ss_batch batch;
  struct ss_lookups lookups;
  struct ss_kept kept;
  uint64_t last[SS_FIRST_FETCH];
};

#define SS_MIN_RUN 256 /* words; fewer are handed on as they are */
#define SS_SIFTED_HEAD (sizeof(struct ss_sifted) / 8 + 1)

SS_SIEVE void ss_copy(void* to, const void* from, uint64_t bytes) {
#if defined(__x86_64__)
  __asm__ volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(bytes) : : "memory");
#else
  for (uint64_t i = 0; i < bytes; i++) ((char*)to)[i] = ((const char*)from)[i];
#endif
}

/* The blocks in front, as one record; the words that it has, 0 if it would not be shorter. */
static inline uint64_t ss_sift_run(struct ss_sifter* sifter, const uint64_t** at,
                                   const uint64_t* end, uint64_t* taken, uint64_t* to) {
  const uint64_t* const run = *at;
  struct ss_batch* const batch = &sifter->batch;
  struct ss_sieve* const sieve = &sifter->sieve;
  batch->data = batch->fetches = batch->refetches = sieve->instructions = 0;
  sieve->last_line = SS_NO_LINE;
  *at = ss_gather(sieve, run, end, taken, batch);
  if (*at - run < SS_MIN_RUN) return 0;
  if (sifter->stale) {
    ss_gate_forget(&sifter->data);
    ss_gate_forget(&sifter->code);
    sifter->stale = 0;
  }
  const uint64_t absent =
      ss_filter(&sifter->data, &sifter->code, batch, sifter->sizes, sifter->last, &sifter->lookups);
  const uint64_t count = ss_merge(batch, &sifter->lookups, &sifter->kept, sifter->keep);
  const uint64_t words = SS_SIFTED_HEAD + count + (count + 1) / 2;
  if (words > (uint64_t)(*at - run)) return 0;
  struct ss_sifted* const record = (struct ss_sifted*)to;
  record->head = SS_HEAD(SS_SIFTED, words, 0);
  record->when = 0;
  record->instructions = sieve->instructions;
  record->accesses = batch->data;
  record->absent = absent;
  record->fetches = batch->fetches + batch->refetches;
  record->first_line = sieve->exits[SS_HEAD_THREAD(*run)].first_line;
  record->last_line = sieve->last_line;
  record->kept = count;
  to[SS_SIFTED_HEAD - 1] = count * 12;
  if (count) to[words - 1] = 0; /* what pads it */
  ss_copy(to + SS_SIFTED_HEAD, sifter->kept.addresses, count * 8);
  ss_copy(to + SS_SIFTED_HEAD + count, sifter->kept.operations, count * 4);
  return words;
}

/* The words that a stretch of whole records becomes, no more than it has. `taken` counts, by exit,
   the blocks that nobody sees any more. Reads three words behind the stretch. */
static inline uint64_t ss_sift_stretch(struct ss_sifter* sifter, const uint64_t* from,
                                       uint64_t words, uint64_t* taken, uint64_t* to) {
  const uint64_t *at = from, *const end = from + words;
  const uint64_t* const start = to;
  while (at < end) {
    const uint64_t* const run = at;
    const uint64_t sifted = ss_sift_run(sifter, &at, end, taken, to);
    to += sifted;
    if (sifted) continue;
    /* Something else, or a block that is not gathered at once; or a run that stays as it is. */
    if (at == run)
      at += SS_HEAD_WORDS(*run);
    else
      for (const uint64_t* one = run; one < at; one += SS_HEAD_WORDS(*one))
        taken[SS_HEAD_THREAD(*one)]--;
    if (SS_HEAD_TAG(*run) == SS_BLOCK_TAG) sifter->stale = 1;
    ss_copy(to, run, (uint64_t)(at - run) * 8);
    to += at - run;
  }
  return (uint64_t)(to - start);
}

#endif
