// SPDX-License-Identifier: Apache-2.0
#include "hot.h"

// At the same height of the same stack all that lies above is mapped, so that what an entry's
// offsets point at can be read before it is known to be its path.
INLINE void* noted(void* block, size_t size, const uintptr_t* slot, size_t narrow, bool wipes) {
  struct heap_log_slot* self = hot_self;
  uint16_t* marks;
  bool is_near = hot_marks(self, block, &marks);
  struct heap_log_hot* path = hot_path(self, slot);
  if (UNLIKELY(!is_near || path->slot != (uintptr_t)slot || path->check != hot_check(path, slot) ||
               size >= HEAP_LOG_SMALL))
    return slow_note(block, size, slot);
  uint64_t weight = 1;
  if (UNLIKELY(hot_pace.left <= hot_pace.turn)) {
    if (hot_pace.draws == 0) return slow_note(block, size, slot);
    hot_pace.draws--;
    hot_count(block);
    weight = hot_pace.step;
    hot_draw();
  }
  path->blocks += weight;
  path->bytes += size * weight;
  hot_mark(marks, block, size, path->mark, narrow, wipes);
  return block;
}

static void* note_two(void* block, size_t size, const uintptr_t* slot) {
  return noted(block, size, slot, 0, false);
}

static void* note_one(void* block, size_t size, const uintptr_t* slot) {
  return noted(block, size, slot, HOT_NARROW, false);
}

static void* note_two_over_stale(void* block, size_t size, const uintptr_t* slot) {
  return noted(block, size, slot, 0, true);
}

static void* note_one_over_stale(void* block, size_t size, const uintptr_t* slot) {
  return noted(block, size, slot, HOT_NARROW, true);
}

hot_noting* hot_note = note_one;
bool hot_has_narrow = true;

void hot_note_no_narrow(void) {
  hot_has_narrow = false;
  hot_note = note_two;
}

void hot_note_over_stale(void) {
  hot_note = hot_has_narrow ? note_one_over_stale : note_two_over_stale;
}
