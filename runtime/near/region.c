// SPDX-License-Identifier: Apache-2.0
#define _GNU_SOURCE
#include "region.h"

#include <pthread.h>
#include <sys/mman.h>

#include "watch.h"

// Pages that become accessible together: 1 MiB, and 9 whole system pages of their descriptions.
enum { STRETCH_PAGES = 256 };

// The most and the least that is worth reserving; what is reserved costs no memory.
#define MOST_PAGES (UINT64_C(16) << 30 >> 12)
#define LEAST_PAGES (UINT64_C(16) << 20 >> 12)

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t once = PTHREAD_ONCE_INIT;

// Written once, under `once`. A reader that has an address of ours synchronised with the thread
// that got it; another reads zeros or the values, and either way finds that it is not ours.
static char* memory;
static page_number take(struct page_source* source, uint16_t pool);
static struct page_source described = {NULL, take};
static uint64_t reserved;           // pages
static uint64_t accessible, given;  // pages, under the lock

_Static_assert(sizeof(struct page) * STRETCH_PAGES % 4096 == 0, "a stretch is whole pages");

static void* reserve(uint64_t bytes) {
  void* start = mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return start == MAP_FAILED ? NULL : start;
}

// With a limit on address space (ulimit -v), less is reserved, and perhaps nothing.
static void reserve_region(void) {
  for (uint64_t pages = MOST_PAGES; pages >= LEAST_PAGES; pages /= 2) {
    char* pages_start = reserve(pages * PAGE_BYTES);
    struct page* infos_start = reserve(pages * sizeof(struct page));
    if (pages_start && infos_start) {
      __atomic_store_n(&described.infos, infos_start, __ATOMIC_RELAXED);
      __atomic_store_n(&reserved, pages, __ATOMIC_RELAXED);
      __atomic_store_n(&memory, pages_start, __ATOMIC_RELEASE);
      return;
    }
    if (pages_start) munmap(pages_start, pages * PAGE_BYTES);
    if (infos_start) munmap(infos_start, pages * sizeof(struct page));
  }
}

static bool open_stretch(void) {
  if (accessible + STRETCH_PAGES > reserved) return false;
  const int access = PROT_READ | PROT_WRITE;
  if (mprotect(described.infos + accessible, STRETCH_PAGES * sizeof(struct page), access) != 0)
    return false;
  if (mprotect(memory + accessible * PAGE_BYTES, STRETCH_PAGES * PAGE_BYTES, access) != 0)
    return false;
  watch_opened(memory + accessible * PAGE_BYTES, STRETCH_PAGES * PAGE_BYTES);
  __atomic_store_n(&accessible, accessible + STRETCH_PAGES, __ATOMIC_RELEASE);
  return true;
}

struct page_source* region_source(void) {
  return &described;
}

static page_number take(struct page_source* source, uint16_t pool) {
  (void)source;
  pthread_once(&once, reserve_region);
  page_number taken = 0;
  pthread_mutex_lock(&lock);
  if (given < accessible || open_stretch()) {
    taken = (page_number)++given;
    __atomic_store_n(&region_info(taken)->pool, pool, __ATOMIC_RELEASE);
  }
  pthread_mutex_unlock(&lock);
  return taken;
}

page_number region_page(const void* address) {
  char* start = __atomic_load_n(&memory, __ATOMIC_ACQUIRE);
  uint64_t offset = (uint64_t)((uintptr_t)address - (uintptr_t)start);
  uint64_t index = offset / PAGE_BYTES;
  if (start == NULL || index >= __atomic_load_n(&accessible, __ATOMIC_ACQUIRE)) return 0;
  page_number number = (page_number)(index + 1);
  return __atomic_load_n(&region_info(number)->pool, __ATOMIC_ACQUIRE) ? number : 0;
}

struct page* region_info(page_number number) {
  return described.infos + (number - 1);
}
char* region_memory(page_number number) { return memory + (uint64_t)(number - 1) * PAGE_BYTES; }

void region_lock(void) { pthread_mutex_lock(&lock); }
void region_unlock(void) { pthread_mutex_unlock(&lock); }
