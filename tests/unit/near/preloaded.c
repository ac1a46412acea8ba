// SPDX-License-Identifier: Apache-2.0
// Threads make, resize and free blocks of all sizes by malloc, calloc and realloc, their own and
// each other's, and check what is in them. Tells how many blocks lie as the policy of the test
// wants: small ones without a header, large ones at the beginning of a cache line.
//
// preloaded [threads] [steps]
#include <malloc.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SLOTS = 300, MOST_THREADS = 16 };

struct held {
  unsigned char* block;
  size_t size;
  unsigned char fill;
};

static struct held slots[SLOTS];
static pthread_mutex_t locks[SLOTS];
static unsigned long steps = 20000;
static atomic_ulong faults, large, at_line;

static uint64_t next(uint64_t* state) {
  *state = *state * 6364136223846793005u + 1442695040888963407u;
  return *state >> 33;
}

static void check(const struct held* held, size_t size) {
  for (size_t i = 0; i < held->size && i < size; i++) faults += held->block[i] != held->fill;
}

static void step(struct held* held, uint64_t* state) {
  size_t size = 1 + next(state) % (next(state) % 2 ? 100 : 9000);
  unsigned how = next(state) % 4;
  if (held->block != NULL && how == 0) {
    held->block = realloc(held->block, size);
    check(held, size);
  } else if (held->block != NULL) {
    check(held, held->size);
    free(held->block);
    held->block = NULL;
    return;
  } else if (how == 1) {
    held->block = calloc(1, size);
    for (size_t i = 0; i < size; i++) faults += held->block[i] != 0;
  } else {
    held->block = malloc(size);
  }
  held->size = size;
  held->fill = (unsigned char)next(state);
  faults += malloc_usable_size(held->block) < size;
  memset(held->block, held->fill, size);
  if (size > 256) {
    large++;
    at_line += (uintptr_t)held->block % 64 == 0;
  }
}

static void* work(void* number) {
  uint64_t state = 77 + (uintptr_t)number;
  for (unsigned long i = 0; i < steps; i++) {
    unsigned long slot = next(&state) % SLOTS;
    pthread_mutex_lock(&locks[slot]);
    step(&slots[slot], &state);
    pthread_mutex_unlock(&locks[slot]);
  }
  return NULL;
}

int main(int argc, char** argv) {
  unsigned long count = argc > 1 ? strtoul(argv[1], NULL, 10) : 4;
  if (argc > 2) steps = strtoul(argv[2], NULL, 10);
  pthread_t threads[MOST_THREADS];
  if (count > MOST_THREADS) return 2;
  for (int i = 0; i < SLOTS; i++) pthread_mutex_init(&locks[i], NULL);
  for (uintptr_t i = 0; i < count; i++) pthread_create(&threads[i], NULL, work, (void*)i);
  for (unsigned long i = 0; i < count; i++) pthread_join(threads[i], NULL);
  for (int i = 0; i < SLOTS; i++) free(slots[i].block);
  printf("faults=%lu all_at_line=%d\n", (unsigned long)faults, large == at_line);
  return 0;
}
