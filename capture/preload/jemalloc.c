// SPDX-License-Identifier: Apache-2.0
// jemalloc's own functions. A program without jemalloc that calls them all the same, because it
// found them here, gets what malloc and its kin can give.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "hot.h"
#include "real.h"

#define EXPORT __attribute__((visibility("default")))
#define SLOT ((const uintptr_t*)__builtin_dwarf_cfa() - 1)

enum { ALIGNMENT = 63, ZERO = 64 };  // of the flags: log2 of an alignment, and a request for zeros

static void* (*real_mallocx)(size_t, int);
static void* (*real_rallocx)(void*, size_t, int);
static void (*real_dallocx)(void*, int);
static void (*real_sdallocx)(void*, size_t, int);
static bool were_looked_for;

static void find(void) {
  if (were_looked_for) return;
  real_mallocx = (void* (*)(size_t, int))dlsym(RTLD_NEXT, "mallocx");
  real_rallocx = (void* (*)(void*, size_t, int))dlsym(RTLD_NEXT, "rallocx");
  real_dallocx = (void (*)(void*, int))dlsym(RTLD_NEXT, "dallocx");
  real_sdallocx = (void (*)(void*, size_t, int))dlsym(RTLD_NEXT, "sdallocx");
  __atomic_store_n(&were_looked_for, true, __ATOMIC_RELEASE);
}

static void* plain_mallocx(size_t size, int flags) {
  size_t alignment = (size_t)1 << (flags & ALIGNMENT);
  void* block = alignment > 16 ? real.memalign(alignment, size) : real.malloc(size);
  return block != NULL && (flags & ZERO) ? memset(block, 0, size) : block;
}

EXPORT void* mallocx(size_t size, int flags);
void* mallocx(size_t size, int flags) {
  find();
  if (real_mallocx != NULL && hot_passes(size)) return real_mallocx(size, flags);
  void* block = real_mallocx ? real_mallocx(size, flags) : plain_mallocx(size, flags);
  return hot_note(block, size, SLOT);
}

// A block that could not be moved keeps its mark only until now: its site is the caller's again.
EXPORT void* rallocx(void* block, size_t size, int flags);
void* rallocx(void* block, size_t size, int flags) {
  find();
  if (real_rallocx == NULL) return slow_realloc(block, size, SLOT);
  if (hot_passes(size) && hot_goes_unseen(block)) return real_rallocx(block, size, flags);
  hot_forget(block);
  return hot_note(real_rallocx(block, size, flags), size, SLOT);
}

EXPORT void dallocx(void* block, int flags);
void dallocx(void* block, int flags) {
  find();
  if (!hot_forget(block)) return;
  if (real_dallocx != NULL)
    real_dallocx(block, flags);
  else
    real.free(block);
}

EXPORT void sdallocx(void* block, size_t size, int flags);
void sdallocx(void* block, size_t size, int flags) {
  find();
  if (!hot_forget(block)) return;
  if (real_sdallocx != NULL)
    real_sdallocx(block, size, flags);
  else
    real.free(block);
}
