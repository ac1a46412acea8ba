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

// Small blocks that still pass before one is noted; negative where all are noted. When it is down
// to `turn`, a block's turn has come: it is noted and the next is drawn, or, when no more `draws`
// are left, it takes the slow way, and pace.c looks at the thread.
struct hot_pace {
  int64_t left, turn;
  uint64_t freed;   // blocks, while all are noted
  uint64_t random;  // state
  uint64_t step;    // blocks from the last noted one to the next, or 0: all are
  uint64_t blocks;  // of the window, when blocks pass
  uint32_t draws;   // until the window ends
  uint32_t fresh;   // of its noted blocks, where nothing had been freed
};

#pragma GCC visibility push(hidden)
extern __thread struct hot_pace hot_pace __attribute__((tls_model("initial-exec")));
// The table of chunks; there is one when blocks may pass.
extern uint8_t* hot_chunks;

// The thread's place in the log. One that has none points at `hot_nowhere`, which knows no region
// and no path: so there is nothing to ask before a look-up, and what it misses finds out why.
extern __thread struct heap_log_slot* hot_self __attribute__((tls_model("initial-exec")));
extern struct heap_log_slot hot_nowhere;

// Marks a block that was just made, and returns it. Which of the two ways it is depends on whether
// the allocator makes blocks that have one granule alone (glibc's never do), and on whether there
// may be marks of blocks that are gone.
typedef void* hot_noting(void* block, size_t size, const uintptr_t* slot);
extern hot_noting* hot_note;
extern bool hot_has_narrow;
void hot_note_no_narrow(void);
void hot_note_over_stale(void);

// The slow ways; those that note return the block. `slot` is where the return address of the
// allocation function's caller stands.
void* slow_note(void* block, size_t size, const uintptr_t* slot);
bool slow_forget(void* block);
bool slow_let_pass(void* block);
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

// Behind a block's own marks there may be those of blocks that were let go unseen; what lies in
// another region keeps them.
INLINE void hot_wipe(uint16_t* marks, const void* block, size_t size) {
  size_t count = (size + 15) / 16;
  size_t rest = HEAP_LOG_REGION_MARKS - ((uintptr_t)block >> 4) % HEAP_LOG_REGION_MARKS;
  if (count > rest) count = rest;
  if (count > 2) __builtin_memset(marks + 2, 0, 2 * (count - 2));
}

// `narrow` blocks have fewer bytes.
INLINE void hot_mark(uint16_t* marks, const void* block, size_t size, uint32_t mark, size_t narrow,
                     bool wipes) {
  if (size < narrow) return hot_mark_one(marks, mark);
  mark += (uint32_t)size << 16;
  __builtin_memcpy(marks, &mark, sizeof mark);
  if (wipes) hot_wipe(marks, block, size);
}

INLINE uint8_t* hot_chunk(const void* block) {
  return hot_chunks + ((uintptr_t)block >> HEAP_LOG_CHUNK_SHIFT) % HEAP_LOG_CHUNKS;
}

enum { HOT_PASS_MEAN = 32 };  // blocks to the next that is noted, when blocks pass

// From 1 to twice the mean, less one: a program that repeats itself must not meet a distance of
// ours.
INLINE void hot_draw(void) {
  uint64_t x = hot_pace.random;
  x ^= x << 13;
  x ^= x >> 7;
  x ^= x << 17;
  hot_pace.random = x;
  hot_pace.step = 1 + ((x >> 32) * (2 * HOT_PASS_MEAN - 1) >> 32);
  hot_pace.left = (int64_t)hot_pace.step - 1;
}

// The block whose turn has come is noted, for all that passed since the last.
INLINE void hot_count(const void* block) {
  hot_pace.blocks += hot_pace.step;
  hot_pace.fresh += *hot_chunk(block) == HEAP_LOG_CLEAN;
}

// Whether a block that is about to be made is let pass.
INLINE bool hot_passes(size_t size) {
  return LIKELY(--hot_pace.left >= 0) && size < HEAP_LOG_SMALL;
}

// Whether a block that is about to be freed is let pass; if so, its chunk is told.
INLINE bool hot_goes_unseen(void* block) {
  return hot_pace.left >= 0 && *hot_chunk(block) == HEAP_LOG_STALE;
}

// Forgets a block that is about to be freed: before, because after it is another's. False when the
// block is none of the allocator's, and must not be freed by it.
INLINE bool hot_forget(void* block) {
  if (hot_pace.left >= 0)
    return LIKELY(*hot_chunk(block) == HEAP_LOG_STALE) || slow_let_pass(block);
  hot_pace.freed++;
  uint16_t* marks;
  bool is_near = hot_marks(hot_self, block, &marks);
  if (UNLIKELY(!is_near || *marks == HEAP_LOG_LARGE)) return slow_forget(block);
  *marks |= HEAP_LOG_FREED;
  return true;
}
