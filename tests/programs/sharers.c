// SPDX-License-Identifier: Apache-2.0
// Two threads that add to the same cells, and each to cells of its own: sharers [milliseconds]
#define _GNU_SOURCE
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define NOINLINE __attribute__((noinline))
enum { CELLS = 1 << 18 };

uint64_t shared_cells[CELLS], left_cells[CELLS], right_cells[CELLS];
static double seconds;

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

// Atomic adds are waited for.
NOINLINE static uint64_t add(uint64_t* cells, uint64_t at, int steps) {
  for (int i = 0; i < steps; i++) {
    at = at * 6364136223846793005ull + 1442695040888963407ull;
    at += __atomic_fetch_add(&cells[(at >> 33) % CELLS], 1, __ATOMIC_RELAXED);
  }
  return at;
}

static void* work(void* own) {
  const double end = now() + seconds;
  uint64_t at = 1;
  while (now() < end) {
    at = add(shared_cells, at, 1000);
    at = add(own, at, 1000);
  }
  return NULL;
}

int main(int argc, char** argv) {
  pthread_t left, right;
  seconds = (argc > 1 ? atof(argv[1]) : 100) / 1000;
  if (pthread_create(&left, NULL, work, left_cells) ||
      pthread_create(&right, NULL, work, right_cells))
    return 3;
  pthread_setname_np(left, "left");
  pthread_setname_np(right, "right");
  pthread_join(left, NULL);
  pthread_join(right, NULL);
  printf("done\n");
  return 0;
}
