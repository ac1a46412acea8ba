// SPDX-License-Identifier: Apache-2.0
#define _GNU_SOURCE
#include "pace.h"

#include <stdlib.h>
#include <time.h>

#include "chunks.h"
#include "hot.h"
#include "log.h"

// `left` never gets there.
#define NEVER INT64_MIN

__thread struct hot_pace hot_pace = {.left = -1, .turn = NEVER};

struct pace {
  uint64_t began;         // ns of processor time, of the window
  uint64_t freed;         // of hot_pace, then
  uint64_t random;        // state
  uint64_t step;          // blocks from the last noted one to the next, or 0: all are
  uint64_t blocks;        // of the window
  uint32_t noted, fresh;  // of those, and where nothing had been freed
};

static __thread struct pace pace __attribute__((tls_model("initial-exec")));
static unsigned windows;  // of all threads
static unsigned threads;
static bool wants_all;

void pace_after_fork(void) {
  windows = threads = 0;
  pace_stop();
}

void pace_stop(void) {
  hot_pace.left = -1;
  hot_pace.turn = NEVER;
  pace.step = 0;
}

static uint64_t used(void) {
  struct timespec time;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

static void begin_window(uint64_t now) {
  pace.began = now;
  pace.freed = hot_pace.freed;
  pace.blocks = pace.noted = pace.fresh = 0;
}

static void note_all(void) {
  pace.step = 0;
  hot_pace.left = -1;
  hot_pace.turn = -1 - PACE_WINDOW;
}

void pace_begin(void) {
  pace.random = 0x9e3779b97f4a7c15u * (1 + __atomic_fetch_add(&threads, 1, __ATOMIC_RELAXED));
  begin_window(used());
  note_all();
}

// From 1 to twice the mean, less one: a program that repeats itself must not meet a distance of
// ours.
static void note_one(void) {
  uint64_t x = pace.random;
  x ^= x << 13;
  x ^= x >> 7;
  x ^= x << 17;
  pace.random = x;
  pace.step = 1 + ((x >> 32) * (2 * PACE_MEAN - 1) >> 32);
  hot_pace.left = (int64_t)pace.step - 1;
  hot_pace.turn = -1;
}

void pace_read_wish(void) { wants_all = getenv("STALLSCOPE_HEAP_EXACT") != NULL; }

// Of a thread that noted all. A heap that only grows is noted whole: it does so once.
static void consider_passing(void) {
  uint64_t now = used(), taken = now - pace.began, freed = hot_pace.freed - pace.freed;
  bool is_early = __atomic_add_fetch(&windows, 1, __ATOMIC_RELAXED) < PACE_FIRST;
  begin_window(now);
  note_all();
  if (is_early || wants_all || taken >= (uint64_t)PACE_NS * PACE_WINDOW ||
      freed < PACE_WINDOW / 2 || !chunks_begin())
    return;
  note_one();
}

// Of a thread that lets blocks pass. Twice as slow, so that it does not change with every look.
static void consider_noting(void) {
  uint64_t now = used(), taken = now - pace.began;
  bool is_slow = taken > 2u * PACE_NS * pace.blocks, grows = pace.fresh > pace.noted / 2;
  __atomic_fetch_add(&log_now.header->passed, pace.blocks - pace.noted, __ATOMIC_RELAXED);
  begin_window(now);
  if (is_slow || grows)
    note_all();
  else
    note_one();
}

uint64_t pace_weight(void) { return pace.step != 0 && hot_pace.left < 0 ? pace.step : 1; }

void pace_turn(const void* block) {
  if (hot_pace.left > hot_pace.turn) return;
  if (pace.step == 0) return consider_passing();
  pace.blocks += pace.step;
  pace.fresh += chunks_is_clean(block);
  if (++pace.noted == PACE_CHECKS)
    consider_noting();
  else
    note_one();
}
