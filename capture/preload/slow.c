// SPDX-License-Identifier: Apache-2.0
// What a block pays that the hot way does not know: a new path, a new region, a new thread, a large
// block. None of it may allocate, nor leave errno changed.
#include <errno.h>
#include <string.h>

#include "chunks.h"
#include "hot.h"
#include "large.h"
#include "log.h"
#include "pace.h"
#include "path.h"
#include "real.h"
#include "slots.h"

// A stack that is not the thread's own (of a coroutine, of a signal handler) is read to the end of
// the page only.
static const uintptr_t* end_of(const struct heap_log_slot* self, const uintptr_t* slot) {
  uint64_t at = (uint64_t)slot, end = self->stack_end;
  bool is_own = at < end && end - at < (uint64_t)1 << 30;
  return (const uintptr_t*)(is_own ? end : (at | (HEAP_LOG_PAGE - 1)) + 1);
}

// Paths of one caller at one height have the same entry as their first choice: of wrappers around
// malloc there are many. So an entry's neighbours hold what it cannot; only the first choice is
// hot.
enum { WAYS = 8 };

static struct heap_log_hot* way(struct heap_log_slot* self, const uintptr_t* slot,
                                unsigned number) {
  return &self->hot[(unsigned)(hot_path(self, slot) - self->hot) ^ number];
}

// A path that is found becomes the first choice of those that share it.
static struct heap_log_hot* known(struct heap_log_slot* self, const uintptr_t* slot) {
  struct heap_log_hot* first = way(self, slot, 0);
  for (unsigned i = 0; i < WAYS; i++) {
    struct heap_log_hot* path = way(self, slot, i);
    if (path->slot != (uint64_t)slot || path->check != hot_check(path, slot)) continue;
    if (i == 0) return first;
    struct heap_log_hot found = *path;
    *path = *first;
    *first = found;
    return first;
  }
  return NULL;
}

// The place for a new path is the first choice; what was there takes another's.
static struct heap_log_hot* vacated(struct heap_log_slot* self, const uintptr_t* slot) {
  static unsigned turn;  // threads need not agree on it
  struct heap_log_hot *first = way(self, slot, 0),
                      *other = way(self, slot, 1 + turn++ % (WAYS - 1));
  for (unsigned i = 1; i < WAYS && other->slot != 0; i++)
    if (way(self, slot, i)->slot == 0) other = way(self, slot, i);
  slots_flush(other);
  *other = *first;
  *first = (struct heap_log_hot){0};
  return first;
}

static struct heap_log_hot* learned(struct heap_log_slot* self, const uintptr_t* slot) {
  struct path found;
  uint32_t site = path_site(&found, slot, end_of(self, slot));
  if (site == HEAP_LOG_UNKNOWN_SITE) log_count(&log_now.header->without_site);
  struct heap_log_hot* path = vacated(self, slot);
  for (unsigned i = 0; i < 3; i++)
    path->offset[i] =
        i + 1 < found.depth ? (uint32_t)((const char*)found.slots[i + 1] - (const char*)slot) : 0;
  path->check = hot_check(path, slot);
  path->mark = site | (uint32_t)HEAP_LOG_IS_SIZE << 16;
  __atomic_signal_fence(__ATOMIC_SEQ_CST);
  path->slot = (uint64_t)slot;
  return path;
}

static void note(struct heap_log_slot* self, void* block, size_t size, const uintptr_t* slot) {
  struct heap_log_hot* path = known(self, slot);
  if (path == NULL) path = learned(self, slot);
  uint64_t weight = size < HEAP_LOG_SMALL ? pace_weight() : 1;
  path->blocks += weight;
  path->bytes += size * weight;
  uint16_t* marks;
  if (!hot_marks(self, block, &marks)) marks = regions_add(self, block);
  if (marks == NULL) {
    log_count(&log_now.header->without_mark);
  } else if (size >= HEAP_LOG_SMALL) {
    large_note(self, block, size, path->mark & 0x7fff, marks);
  } else {
    hot_mark(marks, block, size, path->mark, hot_has_narrow ? HOT_NARROW : 0, hot_chunks != NULL);
  }
  pace_turn(block);
}

void* slow_note(void* block, size_t size, const uintptr_t* slot) {
  if (block == NULL || log_is_busy || real_is_early(block)) return block;
  int before = errno;
  if (log_now.base == NULL) log_begin();
  if (log_now.base != NULL) {
    struct heap_log_slot* self = slots_self();
    if (self == &hot_nowhere)
      log_count(&log_now.header->without_thread);
    else
      note(self, block, size, slot);
  }
  errno = before;
  return block;
}

static bool is_freed(uint16_t mark) {
  return (mark & (HEAP_LOG_IS_SIZE | HEAP_LOG_FREED)) == HEAP_LOG_FREED;
}

void* slow_note_once(void* block, size_t size, const uintptr_t* slot) {
  const uint16_t* marks = block != NULL ? regions_find(block) : NULL;
  bool is_noted = marks != NULL && *marks != 0 && !is_freed(*marks);
  // Where blocks went unseen, the mark need not be this one's.
  if (is_noted && hot_chunks != NULL && !chunks_is_clean(block)) is_noted = false;
  return is_noted ? block : slow_note(block, size, slot);
}

bool slow_forget(void* block) {
  if (block == NULL) return true;
  if (real_is_early(block)) return false;
  uint16_t* marks = regions_find(block);
  if (marks == NULL) return true;
  if (*marks == HEAP_LOG_LARGE)
    large_forget(hot_self, block, marks);
  else
    *marks |= HEAP_LOG_FREED;
  return true;
}

bool slow_let_pass(void* block) { return chunks_let_pass(block) || slow_forget(block); }

// Of a block that the allocator did not make, when only the early pages know its size.
static void* moved(void* block, size_t size, const uintptr_t* slot) {
  void* made = real.malloc(size);
  if (made == NULL) return NULL;
  size_t before = real_early_size(block);
  memcpy(made, block, before < size ? before : size);
  slow_note(made, size, slot);
  return made;
}

void* slow_realloc(void* block, size_t size, const uintptr_t* slot) {
  if (real_is_early(block)) return moved(block, size, slot);
  uint16_t* marks = block != NULL ? regions_find(block) : NULL;
  uint16_t mark = marks != NULL ? *marks : 0;
  struct heap_log_live was = {0};
  if (mark == HEAP_LOG_LARGE)
    was = large_forget(hot_self, block, marks);
  else if (mark != 0)
    *marks = mark | HEAP_LOG_FREED;
  void* made = real.realloc(block, size);
  if (made != NULL)
    slow_note(made, size, slot);
  else if (size != 0 && was.address != 0 && hot_self != &hot_nowhere)
    large_note(hot_self, block, was.size, was.site, marks);
  else if (size != 0 && mark != 0)
    *marks = mark;
  return made;
}
