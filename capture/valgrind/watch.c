/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Watched memory. Every access is looked at after it happened, so what was written is there; hits
   wait until the block is over, because records go between blocks.

   The file that says what is watched has a line for each thing:
     program PATH                     whose variables `exe` means
     range START BYTES WATCH KIND     START in hexadecimal; KIND 1 reads, 2 writes, 3 both
     exe OFFSET BYTES WATCH KIND      the same, from where the program's file is mapped
     if < NUMBER                      or = ! >: only when the first bytes of the range are so
     keep N                           hits that are told one by one; of others how many, by place
     stop N                           the program ends at that hit; 0 for never
     snapshot                         hits come with the bytes of their range */
#include "intern.h"
#include "pub_tool_libcassert.h"
#include "pub_tool_libcbase.h"
#include "pub_tool_libcfile.h"
#include "pub_tool_libcproc.h"
#include "pub_tool_mallocfree.h"
#include "pub_tool_options.h"
#include "pub_tool_stacktrace.h"
#include "pub_tool_threadstate.h"
#include "tool.h"

#define MOST_WAITING 1024 /* more than one block has accesses */
#define FRAMES 16
#define MOST_SNAPSHOT 4096
#define WORD 8

struct range {
  Addr start, end;
  Addr reach; /* the furthest end of this one and all before it in the list */
  UInt watch, kind;
};
struct place { /* where hits come from that are not told one by one */
  UInt watch, kind;
  Addr code;
  ULong count;
};
struct hit {
  const struct range* range;
  UInt thread, kind, size, frames;
  Addr address, code;
  ULong value;
  Addr frame[FRAMES];
  UInt bytes;
  UChar snapshot[MOST_SNAPSHOT];
};

static struct range* ranges;
static UInt range_count, range_room;
static Addr lowest = ~(Addr)0, highest = 0;
static HChar* program;
static Bool placed; /* what is relative to the program */
static struct range* relative;
static UInt relative_count, relative_room;
static HChar condition;
static ULong limit, keep, stop_at, hits;
static Bool snapshots;
static struct hit* waiting;
static struct ss_intern known_places;
static struct place* places;
static UInt place_count, place_room;
ss_word ss_watch_waiting = 0;

static void* grown(void* old, UInt count, UInt* room, SizeT size) {
  if (count < *room) return old;
  *room = *room ? 2 * *room : 64;
  return VG_(realloc)("stallscope.watch", old, *room * size);
}

static void add_range(struct range one) {
  ranges = grown(ranges, range_count, &range_room, sizeof *ranges);
  ranges[range_count++] = one;
}

static Int by_start(const void* a, const void* b) {
  const struct range *left = a, *right = b;
  return left->start < right->start ? -1 : left->start > right->start;
}

static void sort_ranges(void) {
  VG_(ssort)(ranges, range_count, sizeof *ranges, by_start);
  for (UInt i = 0; i < range_count; i++) {
    if (ranges[i].start < lowest) lowest = ranges[i].start;
    if (ranges[i].end > highest) highest = ranges[i].end;
    ranges[i].reach = highest;
  }
}

static void parse_range(const HChar* text, Bool is_relative) {
  HChar* at;
  struct range one = {0};
  one.start = VG_(strtoull16)(text, &at);
  one.end = one.start + VG_(strtoull10)(at, &at);
  one.watch = VG_(strtoull10)(at, &at);
  one.kind = VG_(strtoull10)(at, &at);
  if (!is_relative) {
    add_range(one);
    return;
  }
  relative = grown(relative, relative_count, &relative_room, sizeof *relative);
  relative[relative_count++] = one;
}

static void parse_line(HChar* line) {
  HChar* rest = VG_(strchr)(line, ' ');
  if (rest) *rest++ = 0;
  if (VG_(strcmp)(line, "snapshot") == 0) {
    snapshots = True;
  } else if (!rest) {
    return;
  } else if (VG_(strcmp)(line, "program") == 0) {
    program = VG_(strdup)("stallscope.watch", rest);
  } else if (VG_(strcmp)(line, "range") == 0) {
    parse_range(rest, False);
  } else if (VG_(strcmp)(line, "exe") == 0) {
    parse_range(rest, True);
  } else if (VG_(strcmp)(line, "if") == 0) {
    condition = rest[0];
    limit = VG_(strtoull10)(rest + 1, NULL);
  } else if (VG_(strcmp)(line, "keep") == 0) {
    keep = VG_(strtoull10)(rest, NULL);
  } else if (VG_(strcmp)(line, "stop") == 0) {
    stop_at = VG_(strtoull10)(rest, NULL);
  }
}

void ss_watch_init(void) {
  if (!ss_options.watch) return;
  Int file = VG_(fd_open)(ss_options.watch, VKI_O_RDONLY, 0);
  Long bytes = file < 0 ? -1 : VG_(fsize)(file);
  if (bytes < 0) {
    VG_(fmsg_bad_option)("--ss-watch", "cannot be read\n");
    return;
  }
  HChar* text = VG_(malloc)("stallscope.watch", bytes + 1);
  Int got = VG_(read)(file, text, bytes);
  VG_(close)(file);
  text[got < 0 ? 0 : got] = 0;
  for (HChar *line = text, *next; line && *line; line = next) {
    next = VG_(strchr)(line, '\n');
    if (next) *next++ = 0;
    parse_line(line);
  }
  VG_(free)(text);
  waiting = VG_(malloc)("stallscope.watch", MOST_WAITING * sizeof *waiting);
  sort_ranges();
}

void ss_watch_mapped(Addr address, ULong offset, const HChar* path) {
  if (!program || placed || offset != 0 || VG_(strcmp)(path, program) != 0) return;
  placed = True;
  for (UInt i = 0; i < relative_count; i++) {
    relative[i].start += address;
    relative[i].end += address;
    add_range(relative[i]);
  }
  sort_ranges();
}

static ULong first_bytes(const struct range* range) {
  ULong value = 0;
  UWord size = range->end - range->start;
  VG_(memcpy)(&value, (void*)range->start, size < WORD ? size : WORD);
  return value;
}

static Bool holds(ULong value) {
  switch (condition) {
    case '=':
      return value == limit;
    case '!':
      return value != limit;
    case '<':
      return value < limit;
    case '>':
      return value > limit;
    default:
      return True;
  }
}

static void count_place(const struct range* range, UInt kind, Addr code) {
  struct place key = {range->watch, kind, code, 0};
  Bool fresh;
  UInt* number = ss_intern(&known_places, ss_hash(0, &key, sizeof key), &fresh);
  if (fresh) {
    places = grown(places, place_count, &place_room, sizeof *places);
    *number = place_count;
    places[place_count++] = key;
  }
  places[*number].count++;
}

static void hit(const struct range* range, Addr address, UInt size, UInt kind, Addr code) {
  ULong value = first_bytes(range);
  if (!holds(value)) return;
  if (stop_at && hits >= stop_at) return;
  hits++;
  if (hits > keep && hits != stop_at) {
    count_place(range, kind, code);
    return;
  }
  if (ss_watch_waiting == MOST_WAITING) return;
  struct hit* one = &waiting[ss_watch_waiting++];
  *one = (struct hit){.range = range, .kind = kind, .size = size, .address = address};
  one->thread = ss_current_thread();
  one->code = code;
  one->value = value;
  one->frames = VG_(get_StackTrace)(VG_(get_running_tid)(), one->frame, FRAMES, NULL, NULL, 0);
  if (one->frames) one->frame[0] = code;
  if (snapshots) {
    UWord bytes = range->end - range->start;
    one->bytes = bytes < MOST_SNAPSHOT ? bytes : MOST_SNAPSHOT;
    VG_(memcpy)(one->snapshot, (void*)range->start, one->bytes);
  }
}

/* Called by generated code behind an access. `what`: bytes, and the kind above 32 bits. */
VG_REGPARM(3) void ss_watch_access(Addr address, UWord what, Addr code) {
  UInt size = what & 0xffffffff, kind = what >> 32;
  if (address + size <= lowest || address >= highest || !ss_measuring()) return;
  UInt from = 0, to = range_count; /* the first that begins behind the access */
  while (from < to) {
    UInt middle = from + (to - from) / 2;
    if (ranges[middle].start < address + size)
      from = middle + 1;
    else
      to = middle;
  }
  for (; from > 0 && ranges[from - 1].reach > address; from--) {
    const struct range* range = &ranges[from - 1];
    if (range->end > address && (range->kind & kind)) hit(range, address, size, kind, code);
  }
}

static void emit_hit(const struct hit* one) {
  UInt site = ss_site(one->thread, one->frame, one->frames);
  ss_word fields[] = {one->range->watch, one->kind, one->address, one->size, one->range->start,
                      one->value,        one->code, site,         1};
  ss_emit_tail(SS_WATCHED, one->thread, fields, 9, one->snapshot, one->bytes);
}

/* Called by generated code before a block, when there are any, and at the end. */
void ss_watch_flush(void) {
  UWord count = ss_watch_waiting;
  ss_watch_waiting = 0;
  for (UWord i = 0; i < count; i++) emit_hit(&waiting[i]);
  if (count && stop_at && hits >= stop_at) {
    ss_finish(0);
    VG_(exit)(0);
  }
}

void ss_watch_end(void) {
  if (!ss_options.watch) return;
  UWord count = ss_watch_waiting;
  ss_watch_waiting = 0;
  for (UWord i = 0; i < count; i++) emit_hit(&waiting[i]);
  for (UInt i = 0; i < place_count; i++) {
    UInt site = ss_site(1, &places[i].code, 1);
    ss_word fields[] = {places[i].watch, places[i].kind, 0, 0, 0, 0, places[i].code, site,
                        places[i].count};
    ss_emit_tail(SS_WATCHED, 1, fields, 9, "", 0);
  }
}
