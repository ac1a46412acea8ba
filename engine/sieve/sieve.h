/* SPDX-License-Identifier: Apache-2.0 */
/* The exact filter in front of a simulated machine. Under a policy that settles lines, an access to
   the line that its set of the first cache saw last changes nothing there, and neither does one to
   the page that its set of the first TLB saw last in the TLB.

   Whoever has time does it: the engine, or the capture tool before it hands a buffer on. So this is
   C, and needs nothing but memory that it is given. Keeping too much is never wrong; a sieve that
   has not seen a part of the stream forgets everything.

   It takes two steps: blocks are gathered into a batch, then the batch is filtered. Neither has
   branches that depend on what the program does next, as far as that can be. */
#ifndef STALLSCOPE_SIEVE_H
#define STALLSCOPE_SIEVE_H

#include <stdint.h>
#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#include "sieve/host.h"
#include "stallscope_records.h"

#define SS_SIEVE static inline __attribute__((always_inline, unused))

/* What each set of a first cache and of a first TLB saw last: numbers of lines and pages. */
struct ss_gate {
  uint64_t* lines;
  uint64_t* pages;
  uint64_t line_mask, page_mask;
  uint32_t line_bits, page_bits;
};

SS_SIEVE void ss_gate_forget(const struct ss_gate* gate) {
  for (uint64_t i = 0; i <= gate->line_mask; i++) gate->lines[i] = ~0ULL;
  for (uint64_t i = 0; i <= gate->page_mask; i++) gate->pages[i] = ~0ULL;
}

#define SS_BATCH_ROOM 1024   /* data accesses, and as many fetches */
#define SS_MOST_AT_ONCE 128  /* data accesses that are added at once */
#define SS_FETCHES_AT_ONCE 4 /* and fetches, of most blocks */
#define SS_DATA_AT_ONCE 8    /* and data accesses of most blocks; as many words are read */
#define SS_MOST_FETCHES 16   /* of any that is added at once */
#define SS_READ_AHEAD 512    /* words; where the host's own prefetching ends with the page */
#define SS_FIRST_FETCH (SS_BATCH_ROOM + 2 * SS_MOST_AT_ONCE)
#define SS_BATCH_ALL (2 * SS_FIRST_FETCH)

/* One way out of a block: a cache line, with what most of them need. */
struct ss_sieve_exit {
  uint64_t lines[SS_FETCHES_AT_ONCE]; /* of code, the first; SS_NOTHING where none are fetched */
  uint64_t last_line;                 /* of code; SS_NO_LINE where none are fetched */
  uint8_t spans[SS_DATA_AT_ONCE];     /* of its first operations */
  uint32_t first_operation;
  uint32_t lines_at; /* index of its first line among all */
  uint32_t instructions;
  uint16_t length; /* words in the stream: its operations and one; or SS_LARGE */
  uint8_t fetches; /* lines of code */
  uint8_t loops;   /* once its lines of code were fetched, fetching them again changes nothing */
} __attribute__((aligned(64)));
#define SS_LARGE 0 /* what is not gathered at once */
#define SS_NO_LINE (~0ULL)
#define SS_NOTHING (~1ULL) /* a line that is never the last */

/* Whether no two of them meet in a set of the first cache or TLB. */
SS_SIEVE int ss_lie_apart(const struct ss_gate* code, const uint64_t* lines, uint64_t count) {
  uint64_t low = ~0ULL, high = 0;
  for (uint64_t i = 0; i < count; i++) {
    low = lines[i] < low ? lines[i] : low;
    high = lines[i] > high ? lines[i] : high;
  }
  return count <= 1 || ((high >> code->line_bits) - (low >> code->line_bits) <= code->line_mask &&
                        (high >> code->page_bits) - (low >> code->page_bits) <= code->page_mask);
}

/* `lines` are the exit's own, and `lines_at` their place among all; `spans` those of its
   operations. */
SS_SIEVE struct ss_sieve_exit ss_sieve_exit_of(const struct ss_gate* code, const uint64_t* lines,
                                               uint64_t count, uint32_t lines_at,
                                               uint32_t first_operation, uint32_t operations,
                                               const uint8_t* spans, uint32_t instructions) {
  const int large = operations > SS_MOST_AT_ONCE || count > SS_MOST_FETCHES;
  struct ss_sieve_exit exit;
  for (uint64_t i = 0; i < SS_FETCHES_AT_ONCE; i++) exit.lines[i] = i < count ? lines[i] : 0;
  if (count == 0) exit.lines[0] = SS_NOTHING;
  exit.last_line = count ? lines[count - 1] : SS_NO_LINE;
  for (uint32_t i = 0; i < SS_DATA_AT_ONCE; i++) exit.spans[i] = i < operations ? spans[i] : 0;
  exit.first_operation = first_operation;
  exit.lines_at = lines_at;
  exit.instructions = instructions;
  exit.length = (uint16_t)(large ? SS_LARGE : operations + 1);
  exit.fetches = (uint8_t)(large ? 0 : count);
  exit.loops = (uint8_t)ss_lie_apart(code, lines, count);
  return exit;
}

/* What is known of the code, and what went through so far. */
struct ss_sieve {
  const struct ss_sieve_exit* exits;
  uint64_t known;        /* exits */
  const uint64_t* lines; /* of code, of all exits, and SS_MOST_FETCHES more */
  const uint8_t* spans;  /* by operation, see ss_span(), and three more */
  uint64_t last_line;    /* of code, that was fetched last */
  uint64_t instructions;
};

/* Arrays by access: data first, fetches from SS_FIRST_FETCH on. */
struct ss_batch {
  uint64_t data, fetches; /* that were gathered */
  uint64_t refetches;     /* that are left out, because they change nothing */
  uint64_t addresses[SS_BATCH_ALL];
  uint32_t operations[SS_FIRST_FETCH]; /* of data */
  uint32_t before[SS_FIRST_FETCH];     /* data accesses that came before each fetch */
  uint8_t spans[SS_FIRST_FETCH];       /* of data */
};

/* In lists of accesses: an index times two, plus one where the access goes to several lines. */
struct ss_list {
  uint32_t count;
  uint32_t entries[SS_FIRST_FETCH + 16]; /* some may be written behind the last */
};
SS_SIEVE uint32_t ss_entry(uint64_t index, int several) { return (uint32_t)index << 1 | several; }

/* How far an access reaches beyond its first byte, as far as a byte can say; more than nothing for
   one that may not happen, so that SS_NO_ADDRESS reaches into another line. All that a byte can
   say for a prefetch, so that it is looked at apart. */
#define SS_PREFETCH 0u /* in place of a prefetch's size */
SS_SIEVE uint8_t ss_span(uint32_t size, int guarded) {
  if (size == SS_PREFETCH) return 255;
  const uint32_t least = guarded ? 2 : 1, reach = (size > least ? size : least) - 1;
  return (uint8_t)(reach < 255 ? reach : 255);
}

/* value, value + step, ... */
SS_SIEVE void ss_store_four(uint32_t* to, uint32_t value, uint32_t step) {
#if defined(__SSE2__)
  const int first = (int)value, by = (int)step;
  _mm_storeu_si128((__m128i*)to,
                   _mm_add_epi32(_mm_set1_epi32(first), _mm_set_epi32(3 * by, 2 * by, by, 0)));
#else
  for (uint32_t i = 0; i < 4; i++) to[i] = value + i * step;
#endif
}

/* Fetches from lines of code (their first bytes), at most SS_MOST_FETCHES; may read as many. */
SS_SIEVE uint64_t ss_add_fetches(struct ss_batch* to, uint64_t fetches, uint64_t data,
                                 const uint64_t* lines, uint64_t count) {
  uint64_t* const addresses = to->addresses + SS_FIRST_FETCH + fetches;
  __builtin_memcpy(addresses, lines, SS_FETCHES_AT_ONCE * sizeof *lines);
  ss_store_four(to->before + fetches, (uint32_t)data, 0);
  if (__builtin_expect(count > SS_FETCHES_AT_ONCE, 0)) {
    __builtin_memcpy(addresses, lines, SS_MOST_FETCHES * sizeof *lines);
    for (uint32_t i = 4; i < SS_MOST_FETCHES; i += 4)
      ss_store_four(to->before + fetches + i, (uint32_t)data, 0);
  }
  return fetches + count;
}

/* What operations in a row access, those that did not happen included, at most SS_MOST_AT_ONCE.
   Reads up to three words more than there are. */
SS_SIEVE uint64_t ss_add_data(struct ss_batch* to, uint64_t at, const uint64_t* accessed,
                              uint64_t count, uint32_t operation, const uint8_t* spans) {
  const uint64_t end = at + count;
  for (; at < end; at += 4, accessed += 4, operation += 4, spans += 4) {
    __builtin_memcpy(to->addresses + at, accessed, 4 * sizeof *accessed);
    __builtin_memcpy(to->spans + at, spans, 4);
    ss_store_four(to->operations + at, operation, 1);
  }
  return end;
}

SS_SIEVE int ss_has_room(uint64_t data, uint64_t fetches) {
  return ((data | fetches) & ~(uint64_t)(SS_BATCH_ROOM - 1)) == 0;
}

/* What one way out of a block did, at these places; where the next access goes. */
typedef uint64_t ss_add_exit(const struct ss_sieve* sieve, const struct ss_sieve_exit* one,
                             const uint64_t* addresses, struct ss_batch* batch, uint64_t data,
                             uint64_t* fetches, uint64_t* last_line);

SS_SIEVE uint64_t ss_gather_one(const struct ss_sieve* sieve, const struct ss_sieve_exit* one,
                                const uint64_t* addresses, struct ss_batch* batch, uint64_t data,
                                uint64_t* fetches, uint64_t* last_line) {
  /* What was fetched last need not be fetched again. */
  const uint64_t same = one->lines[0] == *last_line;
  *fetches = ss_add_fetches(batch, *fetches, data, sieve->lines + one->lines_at + same,
                            one->fetches - same);
  *last_line = one->last_line;
  return ss_add_data(batch, data, addresses, one->length - 1u, one->first_operation,
                     sieve->spans + one->first_operation);
}

#if defined(__x86_64__)
/* The same without a loop for most blocks, and without memory other than the exit's. Reads as many
   words as most blocks have at most. */
SS_AVX512 static inline __attribute__((always_inline)) uint64_t ss_gather_one_avx512(
    const struct ss_sieve* sieve, const struct ss_sieve_exit* one, const uint64_t* addresses,
    struct ss_batch* batch, uint64_t data, uint64_t* fetches, uint64_t* last_line) {
  const uint64_t count = one->length - 1u, same = one->lines[0] == *last_line;
  const uint64_t at = *fetches;
  /* Of four lines and the word behind them. */
  _mm256_storeu_si256((__m256i*)(void*)(batch->addresses + SS_FIRST_FETCH + at),
                      _mm256_loadu_si256((const __m256i*)(const void*)(one->lines + same)));
  ss_store_four(batch->before + at, (uint32_t)data, 0);
  if (__builtin_expect(one->fetches > SS_FETCHES_AT_ONCE, 0))
    ss_add_fetches(batch, at, data, sieve->lines + one->lines_at + same, one->fetches - same);
  *fetches = at + one->fetches - same;
  *last_line = one->last_line;
  _mm512_storeu_si512(batch->addresses + data, _mm512_loadu_si512(addresses));
  __builtin_memcpy(batch->spans + data, one->spans, sizeof one->spans);
  _mm256_storeu_si256((__m256i*)(void*)(batch->operations + data),
                      _mm256_add_epi32(_mm256_set1_epi32((int)one->first_operation),
                                       _mm256_set_epi32(7, 6, 5, 4, 3, 2, 1, 0)));
  if (__builtin_expect(count > SS_DATA_AT_ONCE, 0))
    ss_add_data(batch, data, addresses, count, one->first_operation,
                sieve->spans + one->first_operation);
  return data + count;
}
#endif

/* One round of a loop, at `at`; where the next access goes. */
typedef uint64_t ss_add(struct ss_batch* to, uint64_t at, const uint64_t* accessed, uint64_t count,
                        uint32_t operation, const uint8_t* spans);

#if defined(__x86_64__)
/* The same as ss_add_data, eight at a time. */
SS_AVX512 static inline uint64_t ss_add_data_avx512(struct ss_batch* to, uint64_t at,
                                                    const uint64_t* accessed, uint64_t count,
                                                    uint32_t operation, const uint8_t* spans) {
  __m256i operations =
      _mm256_add_epi32(_mm256_set1_epi32((int)operation), _mm256_set_epi32(7, 6, 5, 4, 3, 2, 1, 0));
  for (; count >= 8; at += 8, accessed += 8, operation += 8, spans += 8, count -= 8) {
    _mm512_storeu_si512(to->addresses + at, _mm512_loadu_si512(accessed));
    __builtin_memcpy(to->spans + at, spans, 8);
    _mm256_storeu_si256((__m256i*)(void*)(to->operations + at), operations);
    operations = _mm256_add_epi32(operations, _mm256_set1_epi32(8));
  }
  return ss_add_data(to, at, accessed, count, operation, spans);
}
#endif

/* The same way out of a block over and over, whose code need not be fetched again; where it ends.
 */
SS_SIEVE const uint64_t* ss_gather_rounds(struct ss_sieve* sieve, const uint64_t* at,
                                          const uint64_t* end, uint64_t* taken,
                                          struct ss_batch* batch, ss_add* add) {
  const uint64_t head = *at;
  const struct ss_sieve_exit* const one = &sieve->exits[SS_HEAD_THREAD(head)];
  const uint64_t length = one->length;
  const uint8_t* const spans = sieve->spans + one->first_operation;
  uint64_t data = batch->data, times = 0;
  for (; at < end && *at == head && ss_has_room(data, 0); at += length, times++)
    data = add(batch, data, at + 1, length - 1, one->first_operation, spans);
  batch->data = data;
  batch->refetches += times * (one->fetches - (uint64_t)(one->lines[0] == one->last_line));
  taken[SS_HEAD_THREAD(head)] += times;
  sieve->instructions += times * one->instructions;
  return at;
}

/* Gathers the blocks that stand in a row at the front of a stretch of the stream, as far as they
   are known and there is room; where the rest begins. Counts them in `taken`, by exit. Reads up to
   SS_DATA_AT_ONCE words behind a block, which must be there. */
SS_SIEVE const uint64_t* ss_gather_with(struct ss_sieve* sieve, const uint64_t* at,
                                        const uint64_t* end, uint64_t* taken,
                                        struct ss_batch* batch, ss_add_exit* add_exit,
                                        ss_add* add_round) {
  for (;;) {
    const struct ss_sieve own = *sieve; /* that nobody else can change */
    uint64_t data = batch->data, fetches = batch->fetches;
    uint64_t last_line = own.last_line, instructions = 0, looping = 0;
    while (at < end && ss_has_room(data, fetches)) {
      const uint64_t head = *at ^ SS_BLOCK_TAG << 56; /* length and exit, if it is a block */
      const uint32_t exit = SS_HEAD_THREAD(head);
      if (exit >= own.known) break;
      const struct ss_sieve_exit* const one = &own.exits[exit];
      /* Where the next block begins is known without waiting for what is known of this one. */
      const uint64_t* const next = at + (head >> 32);
      if (one->length != head >> 32) break;
      __builtin_prefetch(at + SS_READ_AHEAD);
      taken[exit]++;
      instructions += one->instructions;
      data = add_exit(&own, one, at + 1, batch, data, &fetches, &last_line);
      looping = *at == *next && one->loops;
      at = next;
      if (__builtin_expect(looping, 0)) break;
    }
    batch->data = data;
    batch->fetches = fetches;
    sieve->last_line = last_line;
    sieve->instructions += instructions;
    if (!looping) return at;
    at = ss_gather_rounds(sieve, at, end, taken, batch, add_round);
  }
}

static __attribute__((noinline, unused)) const uint64_t* ss_gather_plainly(struct ss_sieve* sieve,
                                                                           const uint64_t* at,
                                                                           const uint64_t* end,
                                                                           uint64_t* taken,
                                                                           struct ss_batch* batch) {
  return ss_gather_with(sieve, at, end, taken, batch, ss_gather_one, ss_add_data);
}

#if defined(__x86_64__)
SS_AVX512 static __attribute__((noinline)) const uint64_t* ss_gather_avx512(
    struct ss_sieve* sieve, const uint64_t* at, const uint64_t* end, uint64_t* taken,
    struct ss_batch* batch) {
  return ss_gather_with(sieve, at, end, taken, batch, ss_gather_one_avx512, ss_add_data_avx512);
}
#endif

SS_SIEVE const uint64_t* ss_gather(struct ss_sieve* sieve, const uint64_t* at, const uint64_t* end,
                                   uint64_t* taken, struct ss_batch* batch) {
#if defined(__x86_64__)
  if (ss_has_avx512()) return ss_gather_avx512(sieve, at, end, taken, batch);
#endif
  return ss_gather_plainly(sieve, at, end, taken, batch);
}

#endif
