// SPDX-License-Identifier: Apache-2.0
#include "hot.h"

hot_noting* hot_note = hot_note_one;

// At the same height of the same stack all that lies above is mapped, so that what an entry's
// offsets point at can be read before it is known to be its path.
INLINE void* noted(void* block, size_t size, const uintptr_t* slot, size_t narrow) {
  struct heap_log_slot* self = hot_self;
  uint16_t* marks;
  bool is_near = hot_marks(self, block, &marks);
  struct heap_log_hot* path = hot_path(self, slot);
  if (UNLIKELY(!is_near || path->slot != (uintptr_t)slot || path->check != hot_check(path, slot) ||
               size >= HEAP_LOG_SMALL))
    return slow_note(block, size, slot);
  path->blocks++;
  path->bytes += size;
  if (size >= narrow) {
    uint32_t mark = ((uint32_t)size << 16) + path->mark;
    __builtin_memcpy(marks, &mark, sizeof mark);
  } else {
    hot_mark_one(marks, path->mark);
  }
  return block;
}

void* hot_note_two(void* block, size_t size, const uintptr_t* slot) {
  return noted(block, size, slot, 0);
}

void* hot_note_one(void* block, size_t size, const uintptr_t* slot) {
  return noted(block, size, slot, HOT_NARROW);
}
