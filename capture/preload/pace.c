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
  uint64_t began;  // ns of processor time, of the window
  uint64_t freed;  // of hot_pace, then
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
  hot_pace.step = hot_pace.draws = 0;
}

static uint64_t used(void) {
  struct timespec time;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

static void begin_window(uint64_t now) {
  pace.began = now;
  pace.freed = hot_pace.freed;
  hot_pace.blocks = hot_pace.fresh = 0;
}

static void note_all(void) {
  hot_pace.step = hot_pace.draws = 0;
  hot_pace.left = -1;
  hot_pace.turn = -1 - PACE_WINDOW;
}

void pace_begin(void) {
  hot_pace.random = 0x9e3779b97f4a7c15u * (1 + __atomic_fetch_add(&threads, 1, __ATOMIC_RELAXED));
  begin_window(used());
  note_all();
}

static void let_pass(void) {
  hot_pace.turn = -1;
  hot_pace.draws = PACE_CHECKS - 1;
  hot_draw();
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
  let_pass();
}

// Of a thread that lets blocks pass. Twice as slow, so that it does not change with every look.
static void consider_noting(void) {
  uint64_t now = used(), taken = now - pace.began;
  bool is_slow = taken > 2u * PACE_NS * hot_pace.blocks, grows = hot_pace.fresh > PACE_CHECKS / 2;
  __atomic_fetch_add(&log_now.header->passed, hot_pace.blocks - PACE_CHECKS, __ATOMIC_RELAXED);
  begin_window(now);
  if (is_slow || grows)
    note_all();
  else
    let_pass();
}

uint64_t pace_weight(void) { return hot_pace.step != 0 && hot_pace.left < 0 ? hot_pace.step : 1; }

void pace_turn(const void* block) {
  if (hot_pace.left > hot_pace.turn) return;
  if (hot_pace.step == 0) return consider_passing();
  hot_count(block);
  if (hot_pace.draws == 0) return consider_noting();
  hot_pace.draws--;
  hot_draw();
}
