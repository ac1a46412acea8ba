// SPDX-License-Identifier: Apache-2.0
#define _GNU_SOURCE
#include "chunks.h"

#include <time.h>

#include "hot.h"
#include "log.h"
#include "real.h"

uint8_t* hot_chunks;

void chunks_after_fork(void) { hot_chunks = NULL; }

static uint64_t now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

// What is alive already must not pass. No block, as realloc may be given, always does.
static void fill(void) {
  *hot_chunk(NULL) = HEAP_LOG_STALE;
  for (uint32_t i = 0; i < log_now.header->live; i++)
    if (log_now.live[i].address != 0) chunks_add_large((const void*)log_now.live[i].address);
  for (const char* at = real_early_begin(); at < real_early_end(); at += 1 << HEAP_LOG_CHUNK_SHIFT)
    *hot_chunk(at) = HEAP_LOG_KEPT;
}

bool chunks_begin(void) {
  if (__atomic_load_n(&hot_chunks, __ATOMIC_ACQUIRE) != NULL) return true;
  log_lock();
  if (hot_chunks == NULL && log_ready(HEAP_LOG_CHUNKS_AT, HEAP_LOG_CHUNKS)) {
    hot_chunks = (uint8_t*)log_now.base + HEAP_LOG_CHUNKS_AT;
    fill();
    __atomic_store_n(&log_now.header->sampled_since, now(), __ATOMIC_RELEASE);
    hot_note_over_stale();
  }
  log_unlock();
  return hot_chunks != NULL;
}

bool chunks_is_clean(const void* block) {
  return __atomic_load_n(hot_chunk(block), __ATOMIC_RELAXED) == HEAP_LOG_CLEAN;
}

bool chunks_let_pass(const void* block) {
  uint8_t before = HEAP_LOG_CLEAN;
  return __atomic_compare_exchange_n(hot_chunk(block), &before, HEAP_LOG_STALE, false,
                                     __ATOMIC_RELAXED, __ATOMIC_RELAXED) ||
         before == HEAP_LOG_STALE;
}

static void set(uint8_t* chunk, uint8_t from, uint8_t to) {
  __atomic_compare_exchange_n(chunk, &from, to, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
}

// Only CLEAN becomes STALE without the lock, and both become HAS_LARGE.
void chunks_add_large(const void* block) {
  if (hot_chunks == NULL) return;
  uint8_t* chunk = hot_chunk(block);
  set(chunk, HEAP_LOG_CLEAN, HEAP_LOG_STALE);
  if (*chunk != HEAP_LOG_KEPT) __atomic_fetch_add(chunk, 1, __ATOMIC_RELAXED);
}

void chunks_remove_large(const void* block) {
  if (hot_chunks == NULL) return;
  uint8_t* chunk = hot_chunk(block);
  if (*chunk >= HEAP_LOG_HAS_LARGE && *chunk != HEAP_LOG_KEPT)
    __atomic_fetch_sub(chunk, 1, __ATOMIC_RELAXED);
}
