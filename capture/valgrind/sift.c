/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Takes work off the recorder when it falls behind: what would be copied into the ring is sifted on
   the way (engine/sieve/sift.h). Here is what the sieve has to know of the code. */
#include "sieve/sift.h"

#include "pub_tool_libcbase.h"
#include "pub_tool_libcprint.h"
#include "pub_tool_mallocfree.h"
#include "tool.h"

/* Items begin where a cache line does. */
struct growing {
  void *memory, *items;
  ULong count, room;
};

static Bool wanted = False; /* and possible */
static struct growing exits, lines, spans, sizes;
static struct ss_sifter sifter = {.stale = True};

static void* more(struct growing* list, ULong count, UInt bytes) {
  if (list->count + count > list->room) {
    list->room = 2 * (list->count + count) + 1024;
    void* const memory = VG_(malloc)("ss.sift", list->room * bytes + 64);
    void* const items = (void*)(((Addr)memory + 63) & ~63UL);
    VG_(memcpy)(items, list->items, list->count * bytes);
    VG_(free)(list->memory);
    list->memory = memory;
    list->items = items;
  }
  HChar* at = (HChar*)list->items + list->count * bytes;
  list->count += count;
  return at;
}

static Bool read_gate(const HChar** text, struct ss_gate* gate) {
  ULong numbers[4];
  for (UInt i = 0; i < 4; i++) {
    HChar* end;
    numbers[i] = VG_(strtoll10)(*text, &end);
    if (end == *text) return False;
    *text = *end == ',' ? end + 1 : end;
  }
  if (numbers[0] < 1 || numbers[1] < 1 || numbers[2] > 16 || numbers[3] > 63) return False;
  *gate = (struct ss_gate){VG_(malloc)("ss.sift", numbers[0] * 8),
                           VG_(malloc)("ss.sift", numbers[1] * 8),
                           numbers[0] - 1,
                           numbers[1] - 1,
                           numbers[2],
                           numbers[3]};
  return True;
}

void ss_sift_init(void) {
  const HChar* text = ss_options.sift;
  if (text == NULL || !ss_options.stream) return;
  if (!read_gate(&text, &sifter.data) || !read_gate(&text, &sifter.code))
    VG_(fmsg_bad_option)("--ss-sift", "eight numbers are wanted\n");
  wanted = True;
  /* A few are read behind the last. */
  *(uint64_t*)more(&lines, SS_MOST_FETCHES, 8) = 0;
  *(uint8_t*)more(&spans, 4, 1) = 0;
}

static UInt add_lines(const struct ss_block_shape* shape, UInt instructions) {
  const ULong bytes = 1ULL << sifter.code.line_bits;
  const ULong first = lines.count - SS_MOST_FETCHES;
  if (sifter.code.line_bits == 0) return 0; /* no cache holds instructions */
  for (UInt i = 0; i < instructions; i++) {
    const Addr address = SS_INSTRUCTION_ADDRESS(shape->instruction[i]);
    const UInt length = SS_INSTRUCTION_LENGTH(shape->instruction[i]);
    for (Addr line = address & ~(bytes - 1); line < address + (length ? length : 1);
         line += bytes) {
      const ULong count = lines.count - SS_MOST_FETCHES;
      if (count > first && ((uint64_t*)lines.items)[count - 1] == line) continue;
      more(&lines, 1, 8);
      ((uint64_t*)lines.items)[count] = line;
    }
  }
  return lines.count - SS_MOST_FETCHES - first;
}

void ss_sift_define(const struct ss_block_shape* shape) {
  if (!wanted) return;
  const UInt first_operation = sizes.count;
  if (first_operation + shape->operations >= SS_KEPT_NUMBER) { /* too many to be told apart */
    wanted = False;
    return;
  }
  for (UInt i = 0; i < shape->operations; i++) {
    const struct ss_operation* one = &shape->operation[i];
    const UInt size = one->kind == SS_OP_KIND_PREFETCH ? SS_PREFETCH : one->size;
    *(uint32_t*)more(&sizes, 1, 4) = size;
    more(&spans, 1, 1);
    ((uint8_t*)spans.items)[first_operation + i] = ss_span(size, one->guarded);
  }
  for (UInt i = 0; i < shape->exits; i++) {
    const struct ss_exit* exit = &shape->exit[i];
    const UInt at = lines.count - SS_MOST_FETCHES, count = add_lines(shape, exit->instructions);
    *(struct ss_sieve_exit*)more(&exits, 1, sizeof(struct ss_sieve_exit)) = ss_sieve_exit_of(
        &sifter.code, (const uint64_t*)lines.items + at, count, at, first_operation,
        exit->operations, (const uint8_t*)spans.items + first_operation, exit->instructions);
  }
  sifter.sieve.exits = exits.items;
  sifter.sieve.known = exits.count;
  sifter.sieve.lines = lines.items;
  sifter.sieve.spans = spans.items;
  sifter.sizes = sizes.items;
}

Bool ss_sift_wanted(void) { return wanted; }

void ss_sift_passed_by(void) { sifter.stale = True; }

/* Into memory that the reader has just had: past the caches, or every line would have to come back
   from its processor first. Both are aligned; a word more than there are may be written. */
void ss_hand_over(ss_word* to, const ss_word* from, ULong words) {
  for (ULong i = 0; i < words; i += 2)
    _mm_stream_si128((__m128i*)(to + i), _mm_load_si128((const __m128i*)(from + i)));
  _mm_sfence();
}

static ss_word shelf[SS_RING_BUFFER_WORDS + SS_KEEP_SLACK] __attribute__((aligned(64)));

const ss_word* ss_sift(const ss_word* from, ULong* words, ss_word* taken) {
  *words = ss_sift_stretch(&sifter, from, *words, taken, shelf);
  return shelf;
}
