// SPDX-License-Identifier: Apache-2.0
// Takes the place of malloc, calloc, realloc and free in a program that is started with this
// library in LD_PRELOAD, and places the blocks of the sites that a policy names. All others are the
// C library's, as are those of memalign and its kin.
//
// Not placed: blocks of C++'s new (their site is in libstdc++), and blocks of functions that
// forward to malloc by a site further up than the forwarding function's.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "coloured.h"
#include "policy.h"
#include "region.h"
#include "stallscope_near.h"
#include "system.h"
#include "watch.h"

#define EXPORT __attribute__((visibility("default")))
#define INLINE static inline __attribute__((always_inline))

__attribute__((constructor(101))) static void begin(void) {
  const char* path = getenv("STALLSCOPE_NEAR_POLICY");
  if (path != NULL && *path != '\0') policy_read(path);
  pthread_atfork(coloured_lock, coloured_unlock, coloured_unlock);
}

// In a recording, the recorder's own wraps lie between the program and us, and it tells who called
// them. To ask is no instruction of the program's, so recordings show the placed program as it is.
INLINE struct policy_site* site_behind_wraps(void) {
#if STALLSCOPE_ACTIVE
  return policy_find((const void*)stallscope_request(STALLSCOPE_REQUEST_CALLER, 0, 0, 0));
#else
  return NULL;
#endif
}

// NULL when the site's policy has nothing to say about this size. Watchers have been told of blocks
// that come from here.
INLINE void* placed(size_t size, bool zeroed, const void* caller) {
  struct policy_site* site = policy_find(caller);
  if (site == NULL && watched() && policy_exists()) site = site_behind_wraps();
  if (site == NULL) return NULL;
  enum rule_place place = rule_choose(&site->rule, size);
  if (place == RULE_PASS) return NULL;
  if (place == RULE_LARGE) {
    void* block = coloured_make(size, rule_next_line(&site->rule), zeroed);
    if (block != NULL) watch_allocated(block, size);
    return block;
  }
  void* block = ss_malloc_near(size, __atomic_load_n(&site->newest, __ATOMIC_RELAXED));
  __atomic_store_n(&site->newest, block, __ATOMIC_RELAXED);
  return block != NULL && zeroed ? memset(block, 0, size) : block;
}

INLINE void* told(void* block, size_t size) {
  if (block != NULL) watch_allocated(block, size);
  return block;
}

EXPORT void* malloc(size_t size) {
  void* block = placed(size, false, __builtin_return_address(0));
  return block ? block : told(__libc_malloc(size), size);
}

EXPORT void* calloc(size_t count, size_t size) {
  size_t bytes;
  if (__builtin_mul_overflow(count, size, &bytes)) {
    errno = ENOMEM;
    return NULL;
  }
  void* block = placed(bytes, true, __builtin_return_address(0));
  return block ? block : told(__libc_calloc(count, size), bytes);
}

static size_t placed_size(const void* block) {
  size_t usable = ss_near_usable(block);
  return usable ? usable : coloured_size(block);
}

EXPORT void free(void* block) {
  if (block == NULL) return;
  if (region_page(block)) {
    ss_free_near(block);
    return;
  }
  watch_freed(block, 0);
  if (!coloured_free(block)) __libc_free(block);
}

EXPORT void* realloc(void* block, size_t size) {
  const void* caller = __builtin_return_address(0);
  size_t before = block ? placed_size(block) : 0;
  if (block != NULL && before == 0) {
    watch_freed(block, 0);
    return told(__libc_realloc(block, size), size);
  }
  if (block != NULL && size == 0) {
    free(block);
    return NULL;
  }
  void* made = placed(size, false, caller);
  if (made == NULL) made = told(__libc_malloc(size), size);
  if (made == NULL || block == NULL) return made;
  memcpy(made, block, before < size ? before : size);
  free(block);
  return made;
}

EXPORT size_t malloc_usable_size(void* block) {
  static size_t (*real)(void*);
  size_t size = block ? placed_size(block) : 0;
  if (size != 0 || block == NULL) return size;
  if (real == NULL) real = (size_t(*)(void*))dlsym(RTLD_NEXT, "malloc_usable_size");
  return real(block);
}
