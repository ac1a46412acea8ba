// SPDX-License-Identifier: Apache-2.0
// Counters of threads side by side in one line; after: a line each, of up to 128 bytes.
#include <pthread.h>

#include "pair.h"

enum { THREADS = 4, ROUNDS = 20000 };

static __attribute__((aligned(128))) struct { uint64_t count; } beside[THREADS];
static struct { __attribute__((aligned(128))) uint64_t count; } apart[THREADS];
static int after;
static pthread_barrier_t start;

static void* work(void* argument) {
  const long number = (long)argument;
  pthread_barrier_wait(&start);
  for (int i = 0; i < ROUNDS; i++)
    __atomic_fetch_add(after ? &apart[number].count : &beside[number].count, 1, __ATOMIC_RELAXED);
  return NULL;
}

int main(int argc, char** argv) {
  after = is_after(argc, argv);
  pthread_barrier_init(&start, NULL, THREADS);
  pthread_t threads[THREADS];
  for (long i = 0; i < THREADS; i++) pthread_create(&threads[i], NULL, work, (void*)i);
  for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
  uint64_t sum = 0;
  for (int i = 0; i < THREADS; i++) sum += after ? apart[i].count : beside[i].count;
  printf("%llu\n", (unsigned long long)sum);
}
