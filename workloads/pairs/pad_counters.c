// SPDX-License-Identifier: Apache-2.0
// Counters of threads side by side in one line; after: a line each.
#include <pthread.h>

#include "pair.h"

enum { THREADS = 4, ROUNDS = 6000 };

static __attribute__((aligned(64))) struct { uint64_t count; } beside[THREADS];
static struct { __attribute__((aligned(64))) uint64_t count; } apart[THREADS];
static int after;

static void* work(void* argument) {
  const long number = (long)argument;
  for (int i = 0; i < ROUNDS; i++)
    __atomic_fetch_add(after ? &apart[number].count : &beside[number].count, 1, __ATOMIC_RELAXED);
  return NULL;
}

int main(int argc, char** argv) {
  after = is_after(argc, argv);
  pthread_t threads[THREADS];
  for (long i = 0; i < THREADS; i++) pthread_create(&threads[i], NULL, work, (void*)i);
  for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
  uint64_t sum = 0;
  for (int i = 0; i < THREADS; i++) sum += after ? apart[i].count : beside[i].count;
  printf("%llu\n", (unsigned long long)sum);
}
