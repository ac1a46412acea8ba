// SPDX-License-Identifier: Apache-2.0
// What the threaded workloads share: a team of threads that works in steps, with barriers that a
// recording knows of. The main thread is member 0.
#ifndef STALLSCOPE_WORKLOADS_TEAM_H
#define STALLSCOPE_WORKLOADS_TEAM_H

#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "stallscope.h"

#define NOINLINE __attribute__((noinline))
#define LINE __attribute__((aligned(64)))
#define MEMBERS 4

static pthread_barrier_t team_gate;

static inline void team_wait(void) {
  STALLSCOPE_REGION_BEGIN("barrier");
  pthread_barrier_wait(&team_gate);
  STALLSCOPE_REGION_END("barrier");
}

static void work(long me);

static void* team_member(void* number) {
  work((long)number);
  return NULL;
}

static void team_run(void) {
  pthread_t others[MEMBERS];
  pthread_barrier_init(&team_gate, NULL, MEMBERS);
  for (long i = 1; i < MEMBERS; i++)
    if (pthread_create(&others[i], NULL, team_member, (void*)i)) abort();
  work(0);
  for (long i = 1; i < MEMBERS; i++) pthread_join(others[i], NULL);
}

// The index-th argument, or `usual` when it is left out.
static inline long team_argument(int argc, char** argv, int index, long usual) {
  if (index >= argc) return usual;
  char* end;
  long value = strtol(argv[index], &end, 10);
  if (*end || value < 1) {
    fprintf(stderr, "%s: argument %d must be a number above 0\n", argv[0], index);
    exit(2);
  }
  return value;
}

static inline uint64_t scatter(uint64_t x) {
  x = (x ^ x >> 33) * 0xff51afd7ed558ccdULL;
  x = (x ^ x >> 33) * 0xc4ceb9fe1a85ec53ULL;
  return x ^ x >> 33;
}
static inline double fraction(uint64_t x) { return (double)(scatter(x) >> 11) / (1ULL << 53); }

#endif
