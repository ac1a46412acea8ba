// SPDX-License-Identifier: Apache-2.0
// Stands between a program that is started with this library in LD_PRELOAD and its allocator, and
// logs where blocks were made. The allocator itself does all the work: sizes, addresses and layout
// are what they are without us.
#define _GNU_SOURCE
#include <errno.h>
#include <stddef.h>

#include "hot.h"
#include "real.h"

#define EXPORT __attribute__((visibility("default")))
// Where the return address of the function stands that this is written in.
#define SLOT ((const uintptr_t*)__builtin_dwarf_cfa() - 1)

#define STRING(x) #x
#define NUMBER(x) STRING(x)
// A small block passes while the thread's count is not below zero.
#define LET_PASS(size, real)            \
  "mov hot_pace@gottpoff(%rip), %rcx\n" \
  "decq %fs:(%rcx)\n"                   \
  "js 1f\n"                             \
  "cmp $" NUMBER(SMALL) ", " size       \
                        "\n"            \
                        "jae 1f\n"      \
                        "jmp *" real    \
                        "(%rip)\n"      \
                        "1:\n"
#define SMALL 0x8000
_Static_assert(SMALL == HEAP_LOG_SMALL && offsetof(struct hot_pace, left) == 0, "as above");

// By hand, for what a compiler spends on keeping the slot over the call: the real function is
// called, then noting is jumped to as if the caller had called it.
__asm__(
    ".text\n.globl malloc\n.type malloc, @function\n.p2align 6\n"
    "malloc:\n"
    ".cfi_startproc\n"
    LET_PASS("%rdi", "real")
    "push %rdi\n"
    ".cfi_adjust_cfa_offset 8\n"
    "call *real(%rip)\n"
    "pop %rsi\n"
    ".cfi_adjust_cfa_offset -8\n"
    "mov %rax, %rdi\n"
    "mov %rsp, %rdx\n"
    "jmp *hot_note(%rip)\n"
    ".cfi_endproc\n"
    ".size malloc, .-malloc\n");

__asm__(
    ".text\n.globl calloc\n.type calloc, @function\n.p2align 6\n"
    "calloc:\n"
    ".cfi_startproc\n"
    "mov %rdi, %rax\n"
    "imul %rsi, %rax\n"
    LET_PASS("%rax", "real+8")
    "push %rax\n"
    ".cfi_adjust_cfa_offset 8\n"
    "call *real+8(%rip)\n"
    "pop %rsi\n"
    ".cfi_adjust_cfa_offset -8\n"
    "mov %rax, %rdi\n"
    "mov %rsp, %rdx\n"
    "jmp *hot_note(%rip)\n"
    ".cfi_endproc\n"
    ".size calloc, .-calloc\n");

_Static_assert(offsetof(struct real, malloc) == 0 && offsetof(struct real, calloc) == 8,
               "as above");

static __attribute__((noinline)) void free_seen(void* block) {
  if (UNLIKELY(!hot_forget(block))) return;
  real.free(block);
}

// Apart, so that a block that goes unseen pays for no frame.
EXPORT void free(void* block) {
  if (hot_goes_unseen(block)) return real.free(block);
  free_seen(block);
}

// The mark goes before the old block may be another's, and comes back when nothing was done.
INLINE void* reallocated(void* block, size_t size, const uintptr_t* slot) {
  uint16_t* marks;
  bool is_near = hot_marks(hot_self, block, &marks);
  if (UNLIKELY(!is_near || *marks == HEAP_LOG_LARGE)) return slow_realloc(block, size, slot);
  hot_pace.freed++;
  uint16_t before = *marks;
  *marks = before | HEAP_LOG_FREED;
  void* made = real.realloc(block, size);
  if (UNLIKELY(made == NULL && size != 0)) *marks = before;
  return hot_note(made, size, slot);
}

EXPORT void* realloc(void* block, size_t size) {
  if (hot_passes(size) && hot_goes_unseen(block)) return real.realloc(block, size);
  return reallocated(block, size, SLOT);
}

EXPORT void* reallocarray(void* block, size_t count, size_t size) {
  size_t bytes;
  if (__builtin_mul_overflow(count, size, &bytes)) {
    errno = ENOMEM;
    return NULL;
  }
  if (hot_passes(bytes) && hot_goes_unseen(block)) return real.realloc(block, bytes);
  return reallocated(block, bytes, SLOT);
}

EXPORT void* memalign(size_t alignment, size_t size) {
  if (hot_passes(size)) return real.memalign(alignment, size);
  return hot_note(real.memalign(alignment, size), size, SLOT);
}

EXPORT void* aligned_alloc(size_t alignment, size_t size) {
  if (hot_passes(size)) return real.aligned_alloc(alignment, size);
  return hot_note(real.aligned_alloc(alignment, size), size, SLOT);
}

EXPORT int posix_memalign(void** block, size_t alignment, size_t size) {
  if (hot_passes(size)) return real.posix_memalign(block, alignment, size);
  int fault = real.posix_memalign(block, alignment, size);
  if (fault == 0) hot_note(*block, size, SLOT);
  return fault;
}

EXPORT void* valloc(size_t size) {
  if (hot_passes(size)) return real.valloc(size);
  return hot_note(real.valloc(size), size, SLOT);
}

EXPORT void* pvalloc(size_t size) {
  if (hot_passes(size)) return real.pvalloc(size);
  return hot_note(real.pvalloc(size), size, SLOT);
}
