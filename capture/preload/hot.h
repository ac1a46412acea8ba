// SPDX-License-Identifier: Apache-2.0
// What every malloc and free of the program pays. Nothing here takes a lock, calls the system or
// writes anywhere but into the calling thread's own place and the marks of the block at hand.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "heap_log_layout.h"

#define INLINE static inline __attribute__((always_inline))
#define LIKELY(x) __builtin_expect(!!(x), 1)
#define UNLIKELY(x) __builtin_expect(!!(x), 0)

#pragma GCC visibility push(hidden)
// The thread's place in the log. One that has none points at `hot_nowhere`, which knows no region
// and no path: so there is nothing to ask before a look-up, and what it misses finds out why.
extern __thread struct heap_log_slot* hot_self __attribute__((tls_model("initial-exec")));
extern struct heap_log_slot hot_nowhere;

// Marks a block that was just made, and returns it. Which of the two ways it is depends on whether
// the allocator makes blocks that have one granule alone; glibc's never do.
typedef void* hot_noting(void* block, size_t size, const uintptr_t* slot);
extern hot_noting* hot_note;
hot_noting hot_note_two, hot_note_one;

// The slow ways; those that note return the block. `slot` is where the return address of the
// allocation function's caller stands.
void* slow_note(void* block, size_t size, const uintptr_t* slot);
bool slow_forget(void* block);
void* slow_realloc(void* block, size_t size, const uintptr_t* slot);
// Notes a block unless that happened within the function that made it.
void* slow_note_once(void* block, size_t size, const uintptr_t* slot);
#pragma GCC visibility pop

// Whether the thread has the region of a block at hand; if so, `marks` are its first granules'.
INLINE bool hot_marks(const struct heap_log_slot* self, const void* block, uint16_t** marks) {
  uintptr_t granule = (uintptr_t)block >> 4, region = granule >> (HEAP_LOG_REGION_SHIFT - 4);
  unsigned near = region % HEAP_LOG_NEAR;
  *marks = (uint16_t*)self->near_marks[near] + granule;
  return self->near_region[near] == region;
}

INLINE struct heap_log_hot* hot_path(struct heap_log_slot* self, const uintptr_t* slot) {
  // The caller's address and the height of its stack, 16 bytes apart at least, choose the entry.
  uintptr_t key = *slot + (uintptr_t)slot;
  return (struct heap_log_hot*)((char*)self->hot + (key & (HEAP_LOG_HOT - 1) * 16) * 4);
}

INLINE uintptr_t hot_check(const struct heap_log_hot* path, const uintptr_t* slot) {
  const char* at = (const char*)slot;
  return *slot ^ *(const uintptr_t*)(at + path->offset[0]) ^
         *(const uintptr_t*)(at + path->offset[1]) ^ *(const uintptr_t*)(at + path->offset[2]);
}

enum { HOT_NARROW = 17 };  // blocks of fewer bytes may have one granule

// The granule behind one that may be a whole block is another's; but a size that stands there is of
// a block that was here before.
INLINE void hot_mark_one(uint16_t* marks, uint32_t mark) {
  uint16_t stale = marks[1];
  marks[0] = (uint16_t)mark;
  if (UNLIKELY(stale & HEAP_LOG_IS_SIZE))
    __atomic_compare_exchange_n(&marks[1], &stale, 0, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
}

// Forgets a block that is about to be freed: before, because after it is another's. False when the
// block is none of the allocator's, and must not be freed by it.
INLINE bool hot_forget(void* block) {
  uint16_t* marks;
  bool is_near = hot_marks(hot_self, block, &marks);
  if (UNLIKELY(!is_near || *marks == HEAP_LOG_LARGE)) return slow_forget(block);
  *marks |= HEAP_LOG_FREED;
  return true;
}
