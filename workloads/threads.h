// SPDX-License-Identifier: Apache-2.0
// What workloads of threads in groups need: how large the groups are, and an order of starting them
// that gives nothing away. A thread's name does: worker-GROUP-MEMBER.
#ifndef STALLSCOPE_WORKLOADS_THREADS_H
#define STALLSCOPE_WORKLOADS_THREADS_H

#include <pthread.h>
#include <sched.h>
#include <string.h>

#include "random.h"

#define MOST_THREADS 999

struct groups {
  uint64_t threads, groups, first, others;  // members of the first group, and of each other one
  int unequal;
};

// Equal groups differ by one member at most; of unequal ones the first has more than half.
static inline struct groups make_groups(int argc, char** argv, uint64_t threads, uint64_t groups,
                                        int sizes) {
  struct groups made = {threads, groups, 0, 0, 0};
  if (threads > MOST_THREADS || groups > threads) {
    fprintf(stderr, "%s: groups <= threads <= %d, please\n", argv[0], MOST_THREADS);
    exit(2);
  }
  if (argc <= sizes || strcmp(argv[sizes], "equal") == 0) return made;
  if (strcmp(argv[sizes], "unequal") != 0) {
    fprintf(stderr, "%s: groups are equal or unequal, not '%s'\n", argv[0], argv[sizes]);
    exit(2);
  }
  made.unequal = 1;
  made.others = threads / (2 * groups) > 2 ? threads / (2 * groups) : 2;
  if (made.others * (groups - 1) >= threads) {
    fprintf(stderr, "%s: too few threads for unequal groups\n", argv[0]);
    exit(2);
  }
  made.first = threads - made.others * (groups - 1);
  return made;
}

static inline uint64_t group_of(const struct groups* made, uint64_t thread) {
  if (!made->unequal) return thread % made->groups;
  return thread < made->first ? 0 : 1 + (thread - made->first) / made->others;
}

static inline uint64_t member_of(const struct groups* made, uint64_t thread) {
  if (!made->unequal) return thread / made->groups;
  return thread < made->first ? thread : (thread - made->first) % made->others;
}

static inline void shuffle(uint64_t* order, uint64_t count, uint64_t seed) {
  for (uint64_t i = 0; i < count; i++) order[i] = i;
  for (uint64_t i = count - 1; i > 0; i--) {
    uint64_t j = next_random(&seed) % (i + 1), held = order[i];
    order[i] = order[j];
    order[j] = held;
  }
}

// What a thread begins with. It names itself: it may be done before whoever started it could.
struct beginning {
  void* (*work)(void*);
  void* argument;
  char name[16];
};

static inline void* begin_thread(void* argument) {
  struct beginning* self = argument;
  pthread_setname_np(pthread_self(), self->name);
  return self->work(self->argument);
}

static inline pthread_t start_thread(uint64_t group, uint64_t member, void* (*work)(void*),
                                     void* argument) {
  static struct beginning beginnings[MOST_THREADS];
  static uint64_t started;
  struct beginning* one = &beginnings[started++];
  pthread_t thread;
  one->work = work;
  one->argument = argument;
  snprintf(one->name, sizeof one->name, "worker-%u-%u", (unsigned)group % 1000,
           (unsigned)member % 1000);
  if (pthread_create(&thread, NULL, begin_thread, one) != 0) {
    fputs("cannot start a thread\n", stderr);
    exit(3);
  }
  return thread;
}

// Threads that slept at a barrier wake up one after the other, and the first may be done before the
// last is awake: these stay awake until the last has come. How often they look depends on when
// threads take turns, so it is not for programs whose instructions are counted exactly.
static struct {
  _Alignas(128) uint64_t awaited;
  char padding[120];
} starters;

static inline void expect_threads(uint64_t threads) { starters.awaited = threads; }

static inline void start_together(void) {
  __atomic_fetch_sub(&starters.awaited, 1, __ATOMIC_ACQ_REL);
  while (__atomic_load_n(&starters.awaited, __ATOMIC_ACQUIRE) != 0) sched_yield();
}

#endif
