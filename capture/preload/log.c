// SPDX-License-Identifier: Apache-2.0
#define _GNU_SOURCE
#include "log.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "chunks.h"
#include "file.h"
#include "hot.h"
#include "large.h"
#include "pace.h"
#include "path.h"
#include "slots.h"

struct log log_now;
__thread bool log_is_busy;
__thread struct heap_log_slot* hot_self = &hot_nowhere;
// It knows no region: no block is in one with such a number.
struct heap_log_slot hot_nowhere = {.near_region = {[0 ... HEAP_LOG_NEAR - 1] = ~(uint64_t)0}};

static int lock_word;
static bool was_tried, has_parent;

void log_lock(void) {
  log_is_busy = true;
  // To yield does not help a thread of real-time priority that waits for an ordinary one.
  for (unsigned tries = 0; __atomic_exchange_n(&lock_word, 1, __ATOMIC_ACQUIRE); tries++) {
    if (tries < 100)
      sched_yield();
    else
      nanosleep(&(struct timespec){.tv_nsec = 50000}, NULL);
  }
}

void log_unlock(void) {
  __atomic_store_n(&lock_word, 0, __ATOMIC_RELEASE);
  log_is_busy = false;
}

bool log_ready(uint64_t begin, uint64_t bytes) { return file_ready(begin, bytes); }

// Only the thread that forked lives on, and the log is its parent's: a child that allocates begins
// its own.
static void after_fork(void) {
  hot_self = &hot_nowhere;
  pace_after_fork();
  chunks_after_fork();
  lock_word = 0;
  log_is_busy = false;
  if (log_now.base != NULL) file_leave(log_now.base, log_now.bytes);
  memset(&log_now, 0, sizeof log_now);
  was_tried = false;
  has_parent = true;
}

void log_empty(void* pages, uint64_t bytes) { madvise(pages, bytes, MADV_DONTNEED); }

// What was known of the parent's log.
static void forget_parent(void) {
  slots_after_fork();
  path_after_fork();
  large_after_fork();
  regions_after_fork();
  has_parent = false;
}

static void point_into(char* base, uint64_t bytes) {
  log_now.header = (struct heap_log_header*)base;
  log_now.regions = (uint32_t*)(base + HEAP_LOG_REGIONS_AT);
  log_now.sites = (struct heap_log_site*)(base + HEAP_LOG_SITES_AT);
  log_now.live = (struct heap_log_live*)(base + HEAP_LOG_LIVE_AT);
  log_now.slots = (struct heap_log_slot*)(base + HEAP_LOG_SLOTS_AT);
  log_now.bytes = bytes;
  __atomic_store_n(&log_now.base, base, __ATOMIC_RELEASE);
}

static void begin_with_lock(void) {
  static bool has_handler;
  uint64_t bytes;
  if (has_parent) forget_parent();
  char* base = file_make(&bytes);
  if (base == NULL) return;
  pace_read_wish();
  point_into(base, bytes);
  if (!has_handler) has_handler = pthread_atfork(NULL, NULL, after_fork) == 0;
}

void log_begin(void) {
  if (__atomic_load_n(&was_tried, __ATOMIC_ACQUIRE) || log_is_busy) return;
  int before = errno;
  log_lock();
  // Before the C library has its environment, nobody can say what is wanted.
  if (!was_tried && environ != NULL) {
    begin_with_lock();
    __atomic_store_n(&was_tried, true, __ATOMIC_RELEASE);
  }
  log_unlock();
  errno = before;
}

__attribute__((constructor(101))) static void begin(void) { log_begin(); }
