// SPDX-License-Identifier: Apache-2.0
#define _GNU_SOURCE
#include "large.h"

#include <time.h>

#include "chunks.h"
#include "hot.h"
#include "log.h"

// Places in the list that are empty again; with the lock.
static uint16_t empty[HEAP_LOG_LIVE];
static unsigned empty_count;

void large_after_fork(void) { empty_count = 0; }

static uint64_t now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

static bool has_ring(struct heap_log_slot* self) {
  if (self == &hot_nowhere) return false;
  if (self->has_ring) return true;
  log_lock();
  uint64_t at = (uint64_t)((char*)self->ring - log_now.base);
  self->has_ring = log_ready(at, sizeof self->ring);
  log_unlock();
  return self->has_ring;
}

static void record(struct heap_log_slot* self, const struct heap_log_record* record) {
  if (!has_ring(self) ||
      self->written - __atomic_load_n(&self->taken, __ATOMIC_ACQUIRE) >= HEAP_LOG_RING) {
    log_count(&log_now.header->without_record);
    return;
  }
  self->ring[self->written % HEAP_LOG_RING] = *record;
  __atomic_store_n(&self->written, self->written + 1, __ATOMIC_RELEASE);
}

// HEAP_LOG_LIVE when there is none.
static uint32_t place(void) {
  if (empty_count > 0) return empty[--empty_count];
  uint32_t number = log_now.header->live;
  uint64_t at = HEAP_LOG_LIVE_AT + number * sizeof(struct heap_log_live);
  if (number == HEAP_LOG_LIVE || !log_ready(at, sizeof(struct heap_log_live))) return HEAP_LOG_LIVE;
  __atomic_store_n(&log_now.header->live, number + 1, __ATOMIC_RELEASE);
  return number;
}

static void set_live(struct heap_log_live* live, const struct heap_log_live* to) {
  uint64_t address = to->address;
  __atomic_store_n(&live->address, 0, __ATOMIC_RELEASE);
  *live = *to;
  live->address = address;
  __atomic_fetch_add(&log_now.header->live_version, 1, __ATOMIC_RELEASE);
}

void large_note(struct heap_log_slot* self, void* block, size_t size, uint32_t site,
                uint16_t* marks) {
  struct heap_log_record made = {now(),        (uint64_t)block, size, site,
                                 self->thread, HEAP_LOG_BORN,   0};
  record(self, &made);
  log_lock();
  uint32_t number = place();
  if (number < HEAP_LOG_LIVE) {
    set_live(&log_now.live[number],
             &(struct heap_log_live){made.address, size, made.time, site, self->thread});
    chunks_add_large(block);
  }
  log_unlock();
  if (number == HEAP_LOG_LIVE) {
    log_count(&log_now.header->without_live);
    return;
  }
  marks[0] = HEAP_LOG_LARGE;
  marks[1] = (uint16_t)(HEAP_LOG_IS_SIZE | number);
}

struct heap_log_live large_forget(struct heap_log_slot* self, void* block, uint16_t* marks) {
  uint32_t number = marks[1] & (HEAP_LOG_LIVE - 1);
  struct heap_log_live was = log_now.live[number];
  marks[0] = 0;
  if (was.address != (uint64_t)block || log_is_busy) return (struct heap_log_live){0};
  log_lock();
  set_live(&log_now.live[number], &(struct heap_log_live){0});
  empty[empty_count++] = (uint16_t)number;
  chunks_remove_large(block);
  log_unlock();
  record(self, &(struct heap_log_record){now(), was.address, was.size, was.site, self->thread,
                                         HEAP_LOG_DIED, 0});
  return was;
}
