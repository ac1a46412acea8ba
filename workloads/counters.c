// SPDX-License-Identifier: Apache-2.0
// Each thread counts something else, by atomic additions, in a variable of its own. Packed, the
// counters lie side by side in one cache line, so that threads take it away from each other though
// none looks at another's counter; padded, each has a line for itself. Atomic, because plain
// increments hide in the store buffer.
//
// counters [threads] [additions] [packed|padded]
#define _GNU_SOURCE
#include "threads.h"

#define MOST_COUNTERS 8
#define APART __attribute__((aligned(256)))

struct packed {
  uint64_t requests, replies, errors, retries, opens, closes, reads, writes;
} __attribute__((aligned(128)));

struct padded {
  APART uint64_t requests;
  APART uint64_t replies;
  APART uint64_t errors;
  APART uint64_t retries;
  APART uint64_t opens;
  APART uint64_t closes;
  APART uint64_t reads;
  APART uint64_t writes;
};

struct worker {
  pthread_t thread;
  uint64_t* counter;
  uint64_t additions;
} __attribute__((aligned(256)));

struct packed packed_counters;
struct padded padded_counters;
static struct worker workers[MOST_COUNTERS];

NOINLINE static void count(uint64_t* counter, uint64_t additions) {
  for (uint64_t i = 0; i < additions; i++) __atomic_fetch_add(counter, 1, __ATOMIC_RELAXED);
}

static void* work(void* argument) {
  struct worker* self = argument;
  start_together();
  count(self->counter, self->additions);
  return NULL;
}

int main(int argc, char** argv) {
  uint64_t threads = argument(argc, argv, 1, 4), additions = argument(argc, argv, 2, 100000);
  int padded = argc > 3 && strcmp(argv[3], "padded") == 0;
  if (threads > MOST_COUNTERS || (argc > 3 && !padded && strcmp(argv[3], "packed") != 0)) {
    fprintf(stderr, "%s: at most %d threads, packed or padded\n", argv[0], MOST_COUNTERS);
    return 2;
  }
  uint64_t sum = 0;
  expect_threads(threads);
  for (uint64_t i = 0; i < threads; i++) {
    uint64_t* first = padded ? &padded_counters.requests : &packed_counters.requests;
    workers[i].counter = first + i * (padded ? 256 / sizeof *first : 1);
    workers[i].additions = additions;
    workers[i].thread = start_thread(0, i, work, &workers[i]);
  }
  for (uint64_t i = 0; i < threads; i++) pthread_join(workers[i].thread, NULL);
  for (uint64_t i = 0; i < threads; i++) sum += *workers[i].counter;
  printf("counters checksum=%llu\n", (unsigned long long)sum);
  return 0;
}
