/* SPDX-License-Identifier: Apache-2.0 */
/* The first step of the filter in front of a machine (sieve.h): blocks of the stream become a
   batch. Long loops take both steps at once: what comes next is known there. */
#ifndef STALLSCOPE_GATHER_H
#define STALLSCOPE_GATHER_H

#include "sieve/sieve.h"

#define SS_FETCHES_AT_ONCE 4 /* of most blocks */
#define SS_MOST_FETCHES 16   /* of a block that is gathered at once */

/* One way out of a block. */
struct ss_sieve_exit {
  uint64_t first_line, last_line; /* of code; SS_NOTHING and SS_NO_LINE where none are fetched */
  uint32_t first_operation;
  uint32_t lines_at; /* index of its first line among all */
  uint16_t length;   /* words in the stream: its operations and one; or SS_LARGE */
  uint8_t lines;
  uint8_t loops; /* once its lines of code were fetched, fetching them again changes nothing */
  uint32_t instructions;
};
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

/* `lines` are the exit's own, and `lines_at` their place among all. */
SS_SIEVE struct ss_sieve_exit ss_sieve_exit_of(const struct ss_gate* code, const uint64_t* lines,
                                               uint64_t count, uint32_t lines_at,
                                               uint32_t first_operation, uint32_t operations,
                                               uint32_t instructions) {
  const int large = operations > SS_MOST_AT_ONCE || count > SS_MOST_FETCHES;
  const struct ss_sieve_exit exit = {count ? lines[0] : SS_NOTHING,
                                     count ? lines[count - 1] : SS_NO_LINE,
                                     first_operation,
                                     lines_at,
                                     (uint16_t)(large ? SS_LARGE : operations + 1),
                                     (uint8_t)(large ? 0 : count),
                                     (uint8_t)ss_lie_apart(code, lines, count),
                                     instructions};
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

/* How far an access reaches beyond its first byte, as far as a byte can say; more than nothing for
   one that may not happen, so that SS_NO_ADDRESS reaches into another line. */
SS_SIEVE uint8_t ss_span(uint32_t size, int guarded) {
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

/* What one way out of a block did, at these places. */
SS_SIEVE void ss_gather_one(const struct ss_sieve* sieve, const struct ss_sieve_exit* one,
                            const uint64_t* addresses, struct ss_batch* batch, uint64_t* data,
                            uint64_t* fetches, uint64_t* last_line) {
  /* What was fetched last need not be fetched again. */
  const uint64_t same = one->first_line == *last_line;
  *fetches = ss_add_fetches(batch, *fetches, *data, sieve->lines + one->lines_at + same,
                            one->lines - same);
  *last_line = one->last_line;
  *data = ss_add_data(batch, *data, addresses, one->length - 1u, one->first_operation,
                      sieve->spans + one->first_operation);
}

/* What an exit does at this place of the stream, over and over: filtered as it is read, and only
   what is kept goes into the batch. Where it ends. */
SS_SIEVE const uint64_t* ss_filter_loop_with(const struct ss_filter* filter, uint32_t line_bits,
                                             uint32_t page_bits, const struct ss_sieve_exit* one,
                                             const uint8_t* spans, const uint64_t* at,
                                             const uint64_t* end, struct ss_batch* batch) {
  const struct ss_gate gate = filter->data; /* that nobody else can change */
  struct ss_list *const line_list = &filter->to->lines, *const page_list = &filter->to->pages;
  const uint64_t offset_mask = (1ULL << line_bits) - 1;
  const uint64_t head = *at, length = one->length;
  uint64_t data = batch->data, line_count = line_list->count, page_count = page_list->count;
  for (; at < end && *at == head && ss_has_room(data, 0); at += length)
    for (uint64_t i = 0; i + 1 < length; i++) {
      const uint64_t address = at[i + 1];
      batch->addresses[data] = address;
      batch->operations[data] = one->first_operation + (uint32_t)i;
      if (__builtin_expect((address & offset_mask) + spans[i] > offset_mask, 0)) {
        if (address == SS_NO_ADDRESS) {
          batch->absent++;
          continue;
        }
        line_list->count = (uint32_t)line_count;
        page_list->count = (uint32_t)page_count;
        filter->last[data] = ss_filter_wide(&gate, address, filter->sizes[batch->operations[data]],
                                            data, line_list, page_list);
        line_count = line_list->count;
        page_count = page_list->count;
        data++;
        continue;
      }
      const uint64_t new_line = ss_list_new(gate.lines, gate.line_mask, address >> line_bits, data,
                                            line_list, line_count);
      const uint64_t new_page = ss_list_new(gate.pages, gate.page_mask, address >> page_bits, data,
                                            page_list, page_count);
      line_count += new_line;
      page_count += new_page;
      data += new_line | new_page;
    }
  line_list->count = (uint32_t)line_count;
  page_list->count = (uint32_t)page_count;
  batch->data = batch->filtered = data;
  return at;
}

static __attribute__((noinline, unused)) const uint64_t* ss_filter_loop(
    const struct ss_filter* filter, const struct ss_sieve_exit* one, const uint8_t* spans,
    const uint64_t* at, const uint64_t* end, struct ss_batch* batch) {
  const struct ss_gate* const gate = &filter->data;
  return ss_gate_usual(gate)
             ? ss_filter_loop_with(filter, SS_LINE_BITS, SS_PAGE_BITS, one, spans, at, end, batch)
             : ss_filter_loop_with(filter, gate->line_bits, gate->page_bits, one, spans, at, end,
                                   batch);
}

/* Whether a loop goes on for a while, as far as can be seen without going through it. */
#define SS_LONG_LOOP 16
SS_SIEVE int ss_goes_on(const uint64_t* at, const uint64_t* end, uint64_t length) {
  return (uint64_t)(end - at) >= SS_LONG_LOOP * length && at[(SS_LONG_LOOP - 1) * length] == *at &&
         at[SS_LONG_LOOP / 2 * length] == *at;
}

/* The same way out of a block over and over, whose code need not be fetched again; where it ends.
 */
static __attribute__((noinline, unused)) const uint64_t* ss_gather_loop(
    struct ss_sieve* sieve, struct ss_filter* filter, const uint64_t* at, const uint64_t* end,
    uint64_t* taken, struct ss_batch* batch) {
  const uint64_t* const start = at;
  const uint64_t head = *at;
  const struct ss_sieve_exit* const one = &sieve->exits[SS_HEAD_THREAD(head)];
  const uint64_t length = one->length, before = batch->data;
  const uint8_t* const spans = sieve->spans + one->first_operation;
  if (at < end && ss_goes_on(at, end, length)) {
    ss_filter_data(filter, batch);
    at = ss_filter_loop(filter, one, spans, at, end, batch);
  } else {
    uint64_t data = before;
    for (; at < end && *at == head && ss_has_room(data, 0); at += length)
      data = ss_add_data(batch, data, at + 1, length - 1, one->first_operation, spans);
    batch->data = data;
  }
  const uint64_t times = (uint64_t)(at - start) / length;
  batch->skipped += times * (length - 1) - (batch->data - before);
  batch->skipped_fetches += times * (one->lines - (uint64_t)(one->first_line == one->last_line));
  taken[SS_HEAD_THREAD(head)] += times;
  sieve->instructions += times * one->instructions;
  return at;
}

/* Gathers the blocks that stand in a row at the front of a stretch of the stream, as far as they
   are known and there is room; where the rest begins. Counts them in `taken`, by exit. Reads up to
   three words behind a block, which must be there. */
SS_SIEVE const uint64_t* ss_gather(struct ss_sieve* sieve, struct ss_filter* filter,
                                   const uint64_t* at, const uint64_t* end, uint64_t* taken,
                                   struct ss_batch* batch) {
  for (;;) {
    const struct ss_sieve own = *sieve; /* that nobody else can change */
    uint64_t data = batch->data, fetches = batch->fetches;
    uint64_t last_line = own.last_line, instructions = 0, looping = 0;
    while (at < end && ss_has_room(data, fetches)) {
      const uint64_t head = *at ^ SS_BLOCK_TAG << 56; /* length and exit, if it is a block */
      const uint32_t exit = SS_HEAD_THREAD(head);
      if (exit >= own.known) break;
      const struct ss_sieve_exit* const one = &own.exits[exit];
      if (one->length != head >> 32) break;
      taken[exit]++;
      instructions += one->instructions;
      ss_gather_one(&own, one, at + 1, batch, &data, &fetches, &last_line);
      const uint64_t* const next = at + one->length;
      looping = *at == *next && one->loops;
      at = next;
      if (__builtin_expect(looping, 0)) break;
    }
    batch->data = data;
    batch->fetches = fetches;
    sieve->last_line = last_line;
    sieve->instructions += instructions;
    if (!looping) return at;
    at = ss_gather_loop(sieve, filter, at, end, taken, batch);
  }
}

#endif
