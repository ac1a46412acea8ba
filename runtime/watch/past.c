// SPDX-License-Identifier: Apache-2.0
// One past each heap block: every block ends where a page does, and the page behind it may not be
// touched. What goes over the end traps at its instruction.
//
// A block is aligned as its size is: 16 bytes when that divides the size, else 8, 4, 2 or 1, as
// far as that goes; programs that rely on more than their types need do not work. Each block takes
// two pages or more; when there are too many of them, further ones are plain.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <ucontext.h>

#include "../pages/system.h"
#include "watch.h"

#define PAGE 4096ul
#define MOST 24000  // blocks with a page behind; the kernel allows 65530 mappings
#define SLOTS (1u << 16)
#define API __attribute__((visibility("default")))

bool past_on;
uint32_t past_watch, past_kind;

struct block {
  uint64_t start, size, mapping, pages, caller;
};
static struct block blocks[SLOTS];  // by a hash of the page behind
static uint32_t used;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static uint64_t open_page;  // lent for one instruction
static struct block overrun;

static uint32_t slot_of(uint64_t guard) { return (uint32_t)(guard / PAGE * 2654435761u) % SLOTS; }

static struct block* find_guard(uint64_t guard) {
  for (uint32_t at = slot_of(guard), i = 0; i < SLOTS; ++i, at = (at + 1) % SLOTS) {
    if (blocks[at].start == 0 && blocks[at].size == 0) return NULL;
    if (blocks[at].start && blocks[at].mapping + blocks[at].pages == guard) return &blocks[at];
  }
  return NULL;
}

static uint64_t end_of(uint64_t address) { return (address + PAGE - 1) / PAGE * PAGE; }

// The block that begins there.
static struct block* find(void* pointer) {
  const uint64_t start = (uint64_t)pointer;
  for (uint64_t guard = end_of(start + 1);; guard += PAGE) {
    struct block* block = find_guard(guard);
    if (block && block->start == start) return block;
    if (guard > start + PAGE) break;
  }
  // Larger ones: look at all.
  for (uint32_t i = 0; i < SLOTS; ++i)
    if (blocks[i].start == start) return &blocks[i];
  return NULL;
}

static void* make(size_t size, size_t alignment, uint64_t caller) {
  if (!past_on || !watch_log || used >= MOST || size > (1ul << 32) || alignment > PAGE) return NULL;
  const uint64_t bytes = end_of(size ? size : 1);
  const long mapping =
      CALL6(SYS_mmap, 0, bytes + PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapping < 0) return NULL;
  CALL3(SYS_mprotect, (uint64_t)mapping + bytes, PAGE, PROT_NONE);
  uint64_t start = (uint64_t)mapping + bytes - size;
  if (alignment > 1) start = start / alignment * alignment;
  pthread_mutex_lock(&lock);
  uint32_t at = slot_of((uint64_t)mapping + bytes);
  while (blocks[at].start) at = (at + 1) % SLOTS;
  blocks[at] = (struct block){start, size ? size : 1, (uint64_t)mapping, bytes, caller};
  ++used;
  pthread_mutex_unlock(&lock);
  return (void*)start;
}

static bool drop(void* pointer, struct block* was) {
  pthread_mutex_lock(&lock);
  struct block* block = find(pointer);
  if (block) {
    *was = *block;
    block->start = 0;  // its size stays: others may lie behind it in the table
    --used;
  }
  pthread_mutex_unlock(&lock);
  return block != NULL;
}

#define CALLER ((uint64_t)__builtin_return_address(0))
#define REAL(type, name, ...)       \
  static type (*real)(__VA_ARGS__); \
  if (!real) *(void**)&real = dlsym(RTLD_NEXT, #name)

extern void* __libc_malloc(size_t size);
extern void* __libc_calloc(size_t count, size_t size);
extern void* __libc_realloc(void* pointer, size_t size);
extern void __libc_free(void* pointer);

API void* malloc(size_t size) {
  void* made = make(size, 1, CALLER);
  return made ? made : __libc_malloc(size);
}
API void* calloc(size_t count, size_t size) {
  size_t bytes;
  if (__builtin_mul_overflow(count, size, &bytes)) return NULL;
  void* made = make(bytes, 1, CALLER);
  return made ? made : __libc_calloc(count, size);
}
API void free(void* pointer) {
  struct block was;
  const int kept = errno;
  if (pointer && watch_log && drop(pointer, &was))
    CALL2(SYS_munmap, was.mapping, was.pages + PAGE);
  else
    __libc_free(pointer);
  errno = kept;
}
API void* realloc(void* pointer, size_t size) {
  struct block was;
  if (!pointer) return make(size, 1, CALLER) ?: __libc_malloc(size);
  if (!watch_log || !drop(pointer, &was)) return __libc_realloc(pointer, size);
  void* made = make(size, 1, CALLER);
  if (!made) made = __libc_malloc(size);
  if (made) memcpy(made, pointer, size < was.size ? size : was.size);
  CALL2(SYS_munmap, was.mapping, was.pages + PAGE);
  return made;
}

// Lends the page for one instruction, which is logged.
bool past_fault(uint64_t address, bool writes, void* context) {
  const uint64_t guard = address / PAGE * PAGE;
  pthread_mutex_lock(&lock);
  const struct block* block = past_on ? find_guard(guard) : NULL;
  if (block) overrun = *block;
  pthread_mutex_unlock(&lock);
  if (!block) return false;
  open_page = guard;
  CALL3(SYS_mprotect, guard, PAGE, PROT_READ | PROT_WRITE);
  const struct watch_range range = {overrun.start + overrun.size, overrun.start + overrun.size + 1,
                                    past_watch, past_kind};
  const uint32_t kind = writes ? WATCH_WRITES : WATCH_READS;
  if (past_kind & kind) watch_hit(&range, address, kind, overrun.caller, context);
  ((ucontext_t*)context)->uc_mcontext.gregs[REG_EFL] |= 0x100;
  return true;
}

bool past_stepping(void) { return open_page != 0; }

void past_stepped(void) {
  CALL3(SYS_mprotect, open_page, PAGE, PROT_NONE);
  open_page = 0;
}
