/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Takes work off the recorder when it falls behind: what would be copied into the ring is sifted on
   the way, as the recorder would do it (engine/sieve/sieve.h). Blocks in a row become one record
   with the accesses that can matter to the machine; all other records stay as they are. */
#include "pub_tool_libcassert.h"
#include "pub_tool_libcbase.h"
#include "pub_tool_libcprint.h"
#include "pub_tool_mallocfree.h"
#include "sieve/sieve.h"
#include "tool.h"

#define MIN_RUN 64 /* words; fewer are handed on as they are */
#define FIELDS 7
#define HEAD_WORDS (2 + FIELDS + 1)

struct growing {
  void* items;
  ULong count, room;
};

static Bool wanted = False; /* and possible */
static Bool stale = True;   /* the gates have not seen what went by last */
static struct ss_gate data_gate, code_gate;
static struct growing exits, lines, spans, sizes;
static struct ss_sieve sieve;
static struct ss_batch batch;
static struct ss_lists lists;
static struct ss_kept kept;
static uint64_t last_bytes[SS_FIRST_FETCH];

/* Valgrind's own copies word by word. */
static void copy(void* to, const void* from, ULong bytes) {
  __asm__ volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(bytes) : : "memory");
}

static void* more(struct growing* list, ULong count, UInt bytes) {
  if (list->count + count > list->room) {
    list->room = 2 * (list->count + count) + 1024;
    list->items = VG_(realloc)("ss.sift", list->items, list->room * bytes);
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
  if (!read_gate(&text, &data_gate) || !read_gate(&text, &code_gate))
    VG_(fmsg_bad_option)("--ss-sift", "eight numbers are wanted\n");
  wanted = True;
  /* A few are read behind the last. */
  *(uint64_t*)more(&lines, SS_FETCHES_AT_ONCE, 8) = 0;
  *(uint8_t*)more(&spans, 4, 1) = 0;
}

static UInt add_lines(const struct ss_block_shape* shape, UInt instructions) {
  const ULong bytes = 1ULL << code_gate.line_bits;
  const ULong first = lines.count - SS_FETCHES_AT_ONCE;
  for (UInt i = 0; i < instructions; i++) {
    const Addr address = SS_INSTRUCTION_ADDRESS(shape->instruction[i]);
    const UInt length = SS_INSTRUCTION_LENGTH(shape->instruction[i]);
    for (Addr line = address & ~(bytes - 1); line < address + (length ? length : 1);
         line += bytes) {
      const ULong count = lines.count - SS_FETCHES_AT_ONCE;
      if (count > first && ((uint64_t*)lines.items)[count - 1] == line) continue;
      more(&lines, 1, 8);
      ((uint64_t*)lines.items)[count] = line;
    }
  }
  return lines.count - SS_FETCHES_AT_ONCE - first;
}

void ss_sift_define(const struct ss_block_shape* shape) {
  if (!wanted) return;
  const UInt first_operation = sizes.count;
  if (first_operation + shape->operations >= SS_KEPT_FETCH) { /* too many to be told apart */
    wanted = False;
    return;
  }
  for (UInt i = 0; i < shape->exits; i++) {
    const struct ss_exit* exit = &shape->exit[i];
    const UInt at = lines.count - SS_FETCHES_AT_ONCE, count = add_lines(shape, exit->instructions);
    const uint64_t* own = (const uint64_t*)lines.items + at;
    const Bool large = exit->operations > SS_MOST_AT_ONCE || count > SS_FETCHES_AT_ONCE;
    *(struct ss_sieve_exit*)more(&exits, 1, sizeof(struct ss_sieve_exit)) =
        (struct ss_sieve_exit){.first_line = count ? own[0] : SS_NOTHING,
                               .last_line = count ? own[count - 1] : SS_NO_LINE,
                               .first_operation = first_operation,
                               .lines_at = at,
                               .length = large ? SS_LARGE : exit->operations + 1,
                               .lines = count,
                               .instructions = exit->instructions};
  }
  for (UInt i = 0; i < shape->operations; i++) {
    const struct ss_operation* one = &shape->operation[i];
    *(uint32_t*)more(&sizes, 1, 4) = one->size;
    more(&spans, 1, 1);
    ((uint8_t*)spans.items)[first_operation + i] = ss_span(one->size, one->guarded);
  }
  sieve.exits = exits.items;
  sieve.known = exits.count;
  sieve.lines = lines.items;
  sieve.spans = spans.items;
}

Bool ss_sift_wanted(void) { return wanted; }

void ss_sift_passed_by(void) { stale = True; }

/* Into memory that the reader has just had: past the caches, or every line would have to come back
   from its processor first. Both are aligned; a word more than there are may be written. */
void ss_hand_over(ss_word* to, const ss_word* from, ULong words) {
  for (ULong i = 0; i < words; i += 2)
    _mm_stream_si128((__m128i*)(to + i), _mm_load_si128((const __m128i*)(from + i)));
  _mm_sfence();
}

/* Blocks of a run that goes on as it is are counted by the reader. */
static void count_back(ss_word* taken, const ss_word* at, const ss_word* end) {
  for (; at < end; at += SS_HEAD_WORDS(*at)) taken[SS_HEAD_THREAD(*at)]--;
}

/* The blocks in front, as one record; the words that it has, 0 if it would not be shorter. */
static UInt sift_run(const ss_word** at, const ss_word* end, ss_word* taken, ss_word* to) {
  const ss_word* const run = *at;
  batch.data = batch.fetches = sieve.instructions = 0;
  sieve.last_line = SS_NO_LINE;
  *at = ss_gather(&sieve, run, end, taken, &batch);
  if (*at - run < MIN_RUN) return 0;
  if (stale) {
    ss_gate_forget(&data_gate);
    ss_gate_forget(&code_gate);
    stale = False;
  }
  const ULong absent = ss_filter(&data_gate, &code_gate, &batch, sizes.items, last_bytes, &lists);
  const UInt count = ss_merge(&batch, &lists, &kept);
  const UInt words = HEAD_WORDS + count + (count + 1) / 2;
  if (words > *at - run) return 0;
  const ss_word head[HEAD_WORDS] = {SS_HEAD(SS_SIFTED, words, 0),
                                    0,
                                    sieve.instructions,
                                    batch.data,
                                    absent,
                                    batch.fetches,
                                    sieve.exits[SS_HEAD_THREAD(*run)].first_line,
                                    sieve.last_line,
                                    count,
                                    count * 12ULL};
  to[words - 1] = 0;
  __builtin_memcpy(to, head, sizeof head);
  copy(to + HEAD_WORDS, kept.addresses, count * 8);
  copy(to + HEAD_WORDS + count, kept.operations, count * 4);
  return words;
}

ULong ss_sift(const ss_word* from, ULong words, ss_word* taken, ss_word* to) {
  const ss_word *at = from, *const end = from + words;
  const ss_word* const start = to;
  while (at < end) {
    const ss_word* const run = at;
    const UInt sifted = sift_run(&at, end, taken, to);
    to += sifted;
    if (sifted) continue;
    if (at == run) /* something else, or a block that is not gathered at once */
      at += SS_HEAD_WORDS(*run);
    else
      count_back(taken, run, at);
    if (SS_HEAD_TAG(*run) == SS_BLOCK_TAG) stale = True;
    copy(to, run, (at - run) * 8);
    to += at - run;
  }
  return to - start;
}
