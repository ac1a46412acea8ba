// SPDX-License-Identifier: Apache-2.0
// Threads make, check, resize and free blocks of the near allocator, their own and each other's.
// Every block is filled with its own number, so a block that overlaps another is found.
//
// threads [threads] [steps] [seed]
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "stallscope_near.h"

enum { SLOTS = 512, LARGEST = 320, MOST_THREADS = 64 };

struct held {
  unsigned char* block;
  size_t size;
  unsigned char fill;
};

static struct held slots[SLOTS];
static pthread_mutex_t locks[SLOTS];
static unsigned long steps = 20000, seed = 1;
static atomic_ulong faults;

static uint64_t next(uint64_t* state) {
  *state = *state * 6364136223846793005u + 1442695040888963407u;
  return *state >> 33;
}

static void check(const struct held* held, size_t size) {
  for (size_t i = 0; i < held->size && i < size; i++) faults += held->block[i] != held->fill;
}

static void check_place(const struct held* held) {
  uintptr_t start = (uintptr_t)held->block;
  size_t size = held->size ? held->size : 1;
  faults += start % (size % 16 ? 8 : 16) != 0;
  if (ss_near_usable(held->block) == 0) return;  // one of malloc's
  faults += ss_near_usable(held->block) < size;
  faults += (start + size - 1) / 64 - start / 64 + 1 > (size + 63) / 64;
}

static void make(struct held* held, uint64_t* state, const void* hint) {
  held->size = next(state) % (next(state) % 4 ? 72 : LARGEST);
  held->fill = (unsigned char)next(state);
  if (next(state) % 4)
    held->block = ss_malloc_near(held->size, hint);
  else
    held->block = ss_malloc_near_room(held->size, 64u << next(state) % 3);
}

static void resize(struct held* held, uint64_t* state, const void* hint) {
  size_t size = next(state) % LARGEST;
  held->block = ss_realloc_near(held->block, size, hint);
  check(held, size);
  held->size = size;
}

static void step(struct held* held, uint64_t* state, const void* hint) {
  if (held->block == NULL) {
    make(held, state, hint);
  } else {
    check(held, held->size);
    if (next(state) % 4) {
      ss_free_near(held->block);
      held->block = NULL;
      return;
    }
    resize(held, state, hint);
  }
  check_place(held);
  memset(held->block, held->fill, held->size);
}

static void* work(void* number) {
  uint64_t state = seed * 1000 + (uintptr_t)number;
  const void* hint = NULL;
  for (unsigned long i = 0; i < steps; i++) {
    unsigned long slot = next(&state) % SLOTS;
    pthread_mutex_lock(&locks[slot]);
    step(&slots[slot], &state, hint);
    if (next(&state) % 2) hint = slots[slot].block;  // freed by another thread at any time
    pthread_mutex_unlock(&locks[slot]);
  }
  return NULL;
}

int main(int argc, char** argv) {
  unsigned long count = argc > 1 ? strtoul(argv[1], NULL, 10) : 4;
  if (argc > 2) steps = strtoul(argv[2], NULL, 10);
  if (argc > 3) seed = strtoul(argv[3], NULL, 10);
  pthread_t threads[MOST_THREADS];
  if (count > MOST_THREADS) return 2;
  for (int i = 0; i < SLOTS; i++) pthread_mutex_init(&locks[i], NULL);
  for (uintptr_t i = 0; i < count; i++) pthread_create(&threads[i], NULL, work, (void*)i);
  for (unsigned long i = 0; i < count; i++) pthread_join(threads[i], NULL);
  for (int i = 0; i < SLOTS; i++) {
    if (slots[i].block) check(&slots[i], slots[i].size);
    ss_free_near(slots[i].block);
  }
  struct ss_near_stats stats;
  ss_near_stats(&stats);
  uint64_t hinted = stats.same_line + stats.same_group + stats.same_page + stats.apart;
  uint64_t placed = hinted + stats.conflicting + stats.unhinted;
  printf("faults=%lu placed=%llu freed=%llu pages=%llu\n", (unsigned long)faults,
         (unsigned long long)placed, (unsigned long long)stats.freed,
         (unsigned long long)stats.pages);
  return faults || placed != stats.freed;
}
