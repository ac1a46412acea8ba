// SPDX-License-Identifier: Apache-2.0
// Tells those who watch memory about blocks: Valgrind's tools and our own recorder as any allocator
// does, and the address sanitizer where it is compiled in. Outside Valgrind it costs a test.
//
// The functions that hand out blocks call watch_allocated themselves: a watcher takes the caller of
// the function that speaks to it for the one who asked.
#ifndef STALLSCOPE_NEAR_WATCH_H
#define STALLSCOPE_NEAR_WATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "stallscope.h"

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define NEAR_ASAN 1
#endif
#elif defined(__SANITIZE_ADDRESS__)
#define NEAR_ASAN 1
#endif
#ifdef NEAR_ASAN
#include <sanitizer/asan_interface.h>
#define WATCH_UNCHECKED __attribute__((no_sanitize_address))
#define WATCH_MAY_GROW false  // it would have to be told which bytes of the last granule count
#else
#define WATCH_UNCHECKED
#define WATCH_MAY_GROW true
#endif

// Requests that every Valgrind tool knows, and memcheck's for memory that nobody may use.
#define WATCH_RUNNING 0x1001
#define WATCH_ALLOCATED 0x1301
#define WATCH_FREED 0x1302
#define WATCH_NO_ACCESS (((uint64_t)'M' << 24) | ((uint64_t)'C' << 16))

#define WATCH_INLINE static inline __attribute__((always_inline))

// Racing threads find the same answer.
WATCH_INLINE bool watched(void) {
#if STALLSCOPE_ACTIVE
  static int known = -1;
  int answer = __atomic_load_n(&known, __ATOMIC_RELAXED);
  if (__builtin_expect(answer < 0, 0)) {
    answer = stallscope_request(WATCH_RUNNING, 0, 0, 0) != 0;
    __atomic_store_n(&known, answer, __ATOMIC_RELAXED);
  }
  return answer != 0;
#else
  return false;
#endif
}

WATCH_INLINE void watch_tell(uint64_t request, const void* memory, size_t bytes) {
#if STALLSCOPE_ACTIVE
  if (__builtin_expect(watched(), 0))
    stallscope_request(request, (uint64_t)(uintptr_t)memory, bytes, 0);
#else
  (void)request, (void)memory, (void)bytes;
#endif
}

WATCH_INLINE void watch_opened(void* memory, size_t bytes) {
#ifdef NEAR_ASAN
  __asan_poison_memory_region(memory, bytes);
#endif
  watch_tell(WATCH_NO_ACCESS, memory, bytes);
}

WATCH_INLINE void watch_allocated(void* block, size_t bytes) {
#ifdef NEAR_ASAN
  __asan_unpoison_memory_region(block, bytes);
#endif
  watch_tell(WATCH_ALLOCATED, block, bytes);
}

// The second word of this request is the size of red zones, of which we have none.
WATCH_INLINE void watch_freed(void* block, size_t bytes) {
#ifdef NEAR_ASAN
  __asan_poison_memory_region(block, bytes);
#else
  (void)bytes;
#endif
  watch_tell(WATCH_FREED, block, 0);
}

#endif
