/* SPDX-License-Identifier: Apache-2.0 */
/* What the capture tool makes of a stretch of the stream that it sifts: blocks in a row become one
   `sifted` record with what the filter kept of them, all else stays as it is. */
#ifndef STALLSCOPE_SIFT_H
#define STALLSCOPE_SIFT_H

#include "sieve/filter.h"

/* What was kept of a batch stands behind the record's head: addresses of data, addresses of
   fetches; then a number for each, with its marks above: of data its operation, of a fetch how many
   of the data that was kept came before it. */
#define SS_KEPT_SHIFT 28
#define SS_KEPT_NUMBER ((1u << SS_KEPT_SHIFT) - 1)
#define SS_KEPT_BYTES 12 /* of each */
#define SS_KEEP_SLACK 8  /* words that may be written behind what was kept */

/* The accesses of a batch that are marked: 64 to a word. */
struct ss_picked {
  uint64_t bits[SS_FIRST_FETCH / 64 + 1];
  uint32_t before[SS_FIRST_FETCH / 64 + 1]; /* that are marked in front of these */
};

/* How many there are. */
SS_SIEVE uint32_t ss_pick(const struct ss_marks* marks, uint64_t count, struct ss_picked* to) {
  uint32_t sum = 0;
  for (uint64_t base = 0, at = 0; base <= count; base += 64, at++) {
    to->bits[at] = base < count ? ss_marked(marks->of + base) & ss_within(base, 0, count) : 0;
    to->before[at] = sum;
    sum += (uint32_t)__builtin_popcountll(to->bits[at]);
  }
  return sum;
}

/* How many are marked in front of this one. */
SS_SIEVE uint32_t ss_picked_before(const struct ss_picked* picked, uint32_t index) {
  const uint64_t below = (1ULL << (index & 63)) - 1;
  return picked->before[index >> 6] +
         (uint32_t)__builtin_popcountll(picked->bits[index >> 6] & below);
}

/* The data accesses that are marked: their addresses, and their operations with marks. The second
   are written last; both may be written SS_KEEP_SLACK words too far. */
typedef void ss_keep(const struct ss_batch* batch, const struct ss_marks* marks,
                     const struct ss_picked* picked, uint64_t* addresses, uint32_t* operations);

SS_SIEVE void ss_keep_data(const struct ss_batch* batch, const struct ss_marks* marks,
                           const struct ss_picked* picked, uint64_t* addresses,
                           uint32_t* operations) {
  for (uint64_t base = 0; base < batch->data; base += 64)
    for (uint64_t bits = picked->bits[base / 64]; bits; bits &= bits - 1) {
      const uint64_t index = base + (uint64_t)__builtin_ctzll(bits);
      *addresses++ = batch->addresses[index];
      *operations++ = batch->operations[index] | (uint32_t)marks->of[index] << SS_KEPT_SHIFT;
    }
}

#if defined(__x86_64__)
/* Sixteen at a time. */
SS_AVX512 static inline __attribute__((always_inline)) void ss_keep_data_avx512(
    const struct ss_batch* batch, const struct ss_marks* marks, const struct ss_picked* picked,
    uint64_t* addresses, uint32_t* operations) {
  const __mmask16 all = 0xffff; /* the unmasked forms make GCC 12 warn */
  for (uint64_t base = 0; base < batch->data; base += 16) {
    const __mmask16 some = (__mmask16)(picked->bits[base / 64] >> (base & 63));
    const __mmask8 low = (__mmask8)some, high = (__mmask8)(some >> 8);
    const uint64_t* const from = batch->addresses + base;
    _mm512_storeu_si512(addresses, _mm512_maskz_compress_epi64(low, _mm512_loadu_si512(from)));
    addresses += _mm_popcnt_u32(low);
    _mm512_storeu_si512(addresses, _mm512_maskz_compress_epi64(high, _mm512_loadu_si512(from + 8)));
    addresses += _mm_popcnt_u32(high);
  }
  for (uint64_t base = 0; base < batch->data; base += 16) {
    const __mmask16 some = (__mmask16)(picked->bits[base / 64] >> (base & 63));
    const __m128i mark = _mm_loadu_si128((const __m128i*)(const void*)(marks->of + base));
    const __m512i above =
        _mm512_maskz_slli_epi32(all, _mm512_maskz_cvtepu8_epi32(all, mark), SS_KEPT_SHIFT);
    const __m512i all_of = _mm512_or_epi32(_mm512_loadu_si512(batch->operations + base), above);
    _mm512_storeu_si512(operations, _mm512_maskz_compress_epi32(some, all_of));
    operations += _mm_popcnt_u32(some);
  }
}
#endif

/* The fetches that are marked, in the same way. */
SS_SIEVE void ss_keep_code(const struct ss_batch* batch, const struct ss_marks* marks,
                           const struct ss_picked* picked, const struct ss_picked* data,
                           uint64_t* addresses, uint32_t* numbers) {
  for (uint64_t base = 0; base < batch->fetches; base += 64)
    for (uint64_t bits = picked->bits[base / 64]; bits; bits &= bits - 1) {
      const uint64_t index = base + (uint64_t)__builtin_ctzll(bits);
      *addresses++ = batch->addresses[SS_FIRST_FETCH + index];
      *numbers++ = ss_picked_before(data, batch->before[index]) | (uint32_t)marks->of[index]
                                                                      << SS_KEPT_SHIFT;
    }
}

struct ss_sifter {
  struct ss_sieve sieve;
  struct ss_gate data, code;
  const uint32_t* sizes; /* by operation */
  int stale;             /* the gates have not seen what went by last */
  /* Room to work in. */
  struct ss_batch batch;
  struct ss_lookups lookups;
  struct ss_picked picked_data, picked_code;
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

/* What is marked, as the tail of a record, whose head is filled otherwise; the words that it has, 0
   if that would be more than there may be. Data first: it is written too far. */
SS_SIEVE uint64_t ss_keep_with(struct ss_sifter* sifter, uint64_t most, uint64_t* to,
                               ss_keep* keep) {
  const struct ss_batch* const batch = &sifter->batch;
  const struct ss_marks *const data = &sifter->lookups.data, *const code = &sifter->lookups.code;
  const uint64_t kept = ss_pick(data, batch->data, &sifter->picked_data);
  const uint64_t fetched = ss_pick(code, batch->fetches, &sifter->picked_code);
  const uint64_t count = kept + fetched, words = SS_SIFTED_HEAD + count + (count + 1) / 2;
  if (words > most) return 0;
  struct ss_sifted* const record = (struct ss_sifted*)to;
  record->head = SS_HEAD(SS_SIFTED, words, 0);
  record->kept = kept;
  record->kept_fetches = fetched;
  to[SS_SIFTED_HEAD - 1] = count * SS_KEPT_BYTES;
  if (count) to[words - 1] = 0; /* what pads it */
  uint64_t* const addresses = to + SS_SIFTED_HEAD;
  uint32_t* const numbers = (uint32_t*)(addresses + count);
  keep(batch, data, &sifter->picked_data, addresses, numbers);
  ss_keep_code(batch, code, &sifter->picked_code, &sifter->picked_data, addresses + kept,
               numbers + kept);
  return words;
}

#if defined(__x86_64__)
SS_AVX512 static __attribute__((noinline)) uint64_t ss_keep_avx512(struct ss_sifter* sifter,
                                                                   uint64_t most, uint64_t* to) {
  return ss_keep_with(sifter, most, to, ss_keep_data_avx512);
}
#endif

static inline uint64_t ss_keep_here(struct ss_sifter* sifter, uint64_t most, uint64_t* to) {
#if defined(__x86_64__)
  if (ss_has_avx512()) return ss_keep_avx512(sifter, most, to);
#endif
  return ss_keep_with(sifter, most, to, ss_keep_data);
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
  const uint64_t words = ss_keep_here(sifter, (uint64_t)(*at - run), to);
  if (words == 0) return 0;
  struct ss_sifted* const record = (struct ss_sifted*)to;
  record->when = 0;
  record->instructions = sieve->instructions;
  record->accesses = batch->data;
  record->absent = absent;
  record->fetches = batch->fetches + batch->refetches;
  record->first_line = sieve->exits[SS_HEAD_THREAD(*run)].lines[0];
  record->last_line = sieve->last_line;
  return words;
}

/* The words that a stretch of whole records becomes, no more than it has. `taken` counts, by exit,
   the blocks that nobody sees any more. Reads SS_DATA_AT_ONCE words behind the stretch, and may
   write SS_KEEP_SLACK behind what it becomes. */
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
