// SPDX-License-Identifier: Apache-2.0
// Threads in two groups that each share a table; a scheduler that knows nothing of them puts some
// of each on both chips. Both forms are the same: who starts it says where its threads run, the
// first four on one chip and the others on the second.
#include <pthread.h>

#include "pair.h"

enum { THREADS = 8, GROUPS = 2, WORDS = 512, ROUNDS = 8000 };

static __attribute__((aligned(128))) uint64_t tables[GROUPS][WORDS];
static pthread_barrier_t start;

static void* work(void* argument) {
  const long number = (long)argument;
  uint64_t* table = tables[number / (THREADS / GROUPS)];
  pthread_barrier_wait(&start);
  for (int round = 0; round < ROUNDS; round++)
    for (int i = 0; i < WORDS; i += 8) __atomic_fetch_add(&table[i], 1, __ATOMIC_RELAXED);
  return NULL;
}

int main(int argc, char** argv) {
  is_after(argc, argv);
  pthread_barrier_init(&start, NULL, THREADS);
  pthread_t threads[THREADS];
  for (long i = 0; i < THREADS; i++) pthread_create(&threads[i], NULL, work, (void*)i);
  for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
  printf("%llu\n", (unsigned long long)(tables[0][0] + tables[1][0]));
}
