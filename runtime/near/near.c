// SPDX-License-Identifier: Apache-2.0
// The functions of stallscope_near.h: which pool, under its lock, and malloc for the rest.
#include <string.h>
#include <unistd.h>

#include "pool.h"
#include "region.h"
#include "stallscope_near.h"
#include "system.h"
#include "watch.h"

static struct pool pools[POOLS];
static pthread_once_t once = PTHREAD_ONCE_INIT;
static uint64_t passed_on;
static unsigned threads;

static void before_fork(void) {
  for (int i = 0; i < POOLS; i++) pthread_mutex_lock(&pools[i].lock);
  region_lock();
}

static void after_fork(void) {
  region_unlock();
  for (int i = POOLS - 1; i >= 0; i--) pthread_mutex_unlock(&pools[i].lock);
}

static void begin(void) {
  for (int i = 0; i < POOLS; i++) {
    pthread_mutex_init(&pools[i].lock, NULL);
    pools[i].number = (uint16_t)(i + 1);
    pools[i].source = region_source();
  }
  pthread_atfork(before_fork, after_fork, after_fork);
}

static struct pool* own_pool(void) {
  static __thread struct pool* mine;
  if (mine == NULL) {
    pthread_once(&once, begin);
    mine = &pools[__atomic_fetch_add(&threads, 1, __ATOMIC_RELAXED) % POOLS];
  }
  return mine;
}

// A page that has a pool was taken after `begin`.
static struct pool* pool_of(page_number page) {
  return &pools[__atomic_load_n(&region_info(page)->pool, __ATOMIC_ACQUIRE) - 1];
}

static void* address(struct place place) {
  return place.page ? region_memory(place.page) + place.start * GRANULE_BYTES : NULL;
}

static unsigned offset_in_page(const void* memory, page_number page) {
  return (unsigned)((const char*)memory - region_memory(page));
}

// A block of no bytes has one, so that it is a block.
static size_t at_least_one(size_t size) { return size ? size : 1; }

static void* pass_on(size_t size) {
  __atomic_fetch_add(&passed_on, 1, __ATOMIC_RELAXED);
  return system_malloc(size);
}

static void* place_near(size_t size, const void* hint) {
  page_number page = region_page(hint);
  struct pool* pool = page ? pool_of(page) : own_pool();
  unsigned line = page ? offset_in_page(hint, page) / LINE_BYTES : 0;
  pthread_mutex_lock(&pool->lock);
  struct place place = pool_place(pool, page, line, wish_for(size));
  pthread_mutex_unlock(&pool->lock);
  return address(place);
}

static void* place_with_room(size_t size, size_t room) {
  if (room < size) room = size;
  enum page_kind kind = room <= 64 ? PAGE_ROOM_1 : room <= 128 ? PAGE_ROOM_2 : PAGE_ROOM_4;
  struct pool* pool = own_pool();
  pthread_mutex_lock(&pool->lock);
  struct place place = pool_room(pool, kind, wish_for(size));
  pool->stats.unhinted += place.page != 0;
  pthread_mutex_unlock(&pool->lock);
  return address(place);
}

void* ss_malloc_near(size_t size, const void* hint) {
  size = at_least_one(size);
  void* block = size <= SS_NEAR_LARGEST ? place_near(size, hint) : NULL;
  if (block == NULL) return pass_on(size);
  watch_allocated(block, size);
  return block;
}

void* ss_malloc_near_room(size_t size, size_t room) {
  size = at_least_one(size);
  void* block = size <= SS_NEAR_LARGEST ? place_with_room(size, room) : NULL;
  if (block == NULL) return pass_on(size);
  watch_allocated(block, size);
  return block;
}

__attribute__((noreturn)) static void not_a_block(void) {
  static const char message[] =
      "stallscope: ss_free_near or ss_realloc_near got an address inside its pages that is no "
      "block's beginning\n  it was freed before, or never was a block\n";
  if (write(STDERR_FILENO, message, sizeof message - 1) < 0) abort();
  abort();
}

// Watchers hear of it before the memory can be given to another thread.
void ss_free_near(void* block) {
  page_number page = region_page(block);
  if (page == 0) {
    system_free(block);
    return;
  }
  struct pool* pool = pool_of(page);
  unsigned offset = offset_in_page(block, page);
  pthread_mutex_lock(&pool->lock);
  unsigned granules =
      offset % GRANULE_BYTES ? 0 : page_block(region_info(page), offset / GRANULE_BYTES);
  if (granules) {
    watch_freed(block, granules * GRANULE_BYTES);
    pool_free(pool, page, offset / GRANULE_BYTES);
  }
  pthread_mutex_unlock(&pool->lock);
  if (granules == 0) not_a_block();
}

size_t ss_near_usable(const void* block) {
  page_number page = region_page(block);
  if (page == 0) return 0;
  struct pool* pool = pool_of(page);
  unsigned offset = offset_in_page(block, page);
  pthread_mutex_lock(&pool->lock);
  unsigned granules =
      offset % GRANULE_BYTES ? 0 : page_block(region_info(page), offset / GRANULE_BYTES);
  pthread_mutex_unlock(&pool->lock);
  return granules * GRANULE_BYTES;
}

// Only granules are known of a block's size. Its last granule is read as a whole word, which
// watchers of memory accept where they would not accept its last bytes one by one; volatile, so
// that it does not become a call of memcpy.
WATCH_UNCHECKED static void copy(void* to, const void* from, unsigned granules, size_t size) {
  const volatile uint64_t* words = from;
  for (size_t done = 0; done < size && done / GRANULE_BYTES < granules; done += GRANULE_BYTES) {
    uint64_t word = words[done / GRANULE_BYTES];
    memcpy((char*)to + done, &word, size - done < sizeof word ? size - done : sizeof word);
  }
}

void* ss_realloc_near(void* block, size_t size, const void* hint) {
  size = at_least_one(size);
  bool foreign = region_page(block) == 0;
  if (foreign && block != NULL) return system_realloc(block, size);
  unsigned granules = foreign ? 0 : (unsigned)(ss_near_usable(block) / GRANULE_BYTES);
  if (!foreign && granules == 0) not_a_block();
  bool small = size <= SS_NEAR_LARGEST;
  bool fits = small && granules == wish_for(size).granules;
  if (fits && (size % 16 != 0 || (uintptr_t)block % 16 == 0) && WATCH_MAY_GROW && !watched())
    return block;
  void* made = small ? place_near(size, hint) : NULL;
  if (made == NULL)
    made = pass_on(size);
  else
    watch_allocated(made, size);
  if (made == NULL || block == NULL) return made;
  copy(made, block, granules, size);
  ss_free_near(block);
  return made;
}

void ss_near_stats(struct ss_near_stats* stats) {
  pthread_once(&once, begin);
  memset(stats, 0, sizeof *stats);
  for (int i = 0; i < POOLS; i++) {
    pthread_mutex_lock(&pools[i].lock);
    const struct ss_near_stats* own = &pools[i].stats;
    stats->same_line += own->same_line;
    stats->same_group += own->same_group;
    stats->same_page += own->same_page;
    stats->apart += own->apart;
    stats->conflicting += own->conflicting;
    stats->unhinted += own->unhinted;
    stats->freed += own->freed;
    stats->pages += own->pages;
    pthread_mutex_unlock(&pools[i].lock);
  }
  stats->passed_on = __atomic_load_n(&passed_on, __ATOMIC_RELAXED);
}
