// SPDX-License-Identifier: Apache-2.0
// Blocks that stay, made before and while others come and go as fast as they can, and what lives at
// the end: lines of "FUNCTION ADDRESS SIZE", then "ready". It waits for a line on standard input,
// allocates slowly for a while, says again what lives, and waits once more.
//
// heaplog_churn [steps] [threads] [fork]
#define _GNU_SOURCE
#include <malloc.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define NOINLINE __attribute__((noinline, noclone))
enum { KEPT = 3000, SLOTS = 2048, LARGE = 8, MOST_THREADS = 8, LATE = 30000, STAY = 200 };

struct said {
  const char* function;
  void* block;
  size_t size;
};

struct lot {
  struct said kept[KEPT], slots[SLOTS], large[LARGE], late[STAY];
  uint64_t random;
};

static struct lot lots[MOST_THREADS];
static uint64_t steps = 3000000;

static uint64_t next_random(uint64_t* state) {
  *state ^= *state << 13;
  *state ^= *state >> 7;
  *state ^= *state << 17;
  return *state >> 16;
}

NOINLINE static struct said make_kept(size_t size) {
  return (struct said){"make_kept", malloc(size), size};
}
NOINLINE static struct said make_small(size_t size) {
  return (struct said){"make_small", malloc(size), size};
}
NOINLINE static struct said make_medium(size_t size) {
  return (struct said){"make_medium", calloc(1, size), size};
}
NOINLINE static struct said make_aligned(size_t size) {
  return (struct said){"make_aligned", memalign(64, size), size};
}
NOINLINE static struct said make_large(size_t size) {
  return (struct said){"make_large", malloc(size), size};
}
NOINLINE static struct said make_late(size_t size) {
  return (struct said){"make_late", malloc(size), size};
}
NOINLINE static struct said grow(struct said was) {
  size_t size = was.size + 600;
  return (struct said){"grow", realloc(was.block, size), size};
}

// Sizes tell the functions apart, as they mostly do.
static struct said made(uint64_t random) {
  uint64_t choice = random % 100, more = random >> 20;
  if (choice < 70) return make_small(17 + more % 40);
  if (choice < 97) return make_medium(200 + more % 100);
  return make_aligned(500);
}

static void step(struct lot* lot) {
  uint64_t random = next_random(&lot->random);
  struct said* slot = &lot->slots[(random >> 8) % SLOTS];
  if (random % 512 == 0 && slot->block != NULL && slot->size < 1000) {
    *slot = grow(*slot);
    return;
  }
  free(slot->block);
  *slot = made(random >> 24);
  if (random % 4096 == 1) {
    struct said* large = &lot->large[(random >> 40) % LARGE];
    free(large->block);
    *large = make_large(40000 + 1000 * (random % 7));
  }
}

static void* churn(void* data) {
  struct lot* lot = data;
  for (int i = 0; i < KEPT; i++) lot->kept[i] = make_kept(24 + (size_t)i % 100);
  for (uint64_t i = 0; i < steps; i++) step(lot);
  return NULL;
}

static void say(const struct said* all, int count) {
  for (int i = 0; i < count; i++)
    if (all[i].block != NULL) printf("%s %p %zu\n", all[i].function, all[i].block, all[i].size);
}

static void wait_for_reader(void) {
  for (int i = 0; i < MOST_THREADS; i++) {
    say(lots[i].kept, KEPT);
    say(lots[i].slots, SLOTS);
    say(lots[i].large, LARGE);
    say(lots[i].late, STAY);
  }
  printf("ready\n");
  fflush(stdout);
  char line[8];
  if (fgets(line, sizeof line, stdin) == NULL) exit(3);
}

// As a program that does something between two blocks; the last ones stay.
static void allocate_slowly(void) {
  volatile unsigned work = 0;
  for (int i = 0; i < LATE; i++) {
    for (int j = 0; j < 4000; j++) work += (unsigned)j;
    struct said one = make_late(5000);
    if (one.block == NULL) abort();
    if (i >= LATE - STAY)
      lots[0].late[i - (LATE - STAY)] = one;
    else
      free(one.block);
  }
}

int main(int argc, char** argv) {
  if (argc > 1) steps = (uint64_t)atoll(argv[1]);
  int threads = argc > 2 ? atoi(argv[2]) : 0;
  pthread_t all[MOST_THREADS];
  for (int i = 0; i < MOST_THREADS; i++) lots[i].random = 88172645463325252u + (uint64_t)i;
  churn(&lots[0]);
  for (int i = 1; i <= threads && i < MOST_THREADS; i++)
    if (pthread_create(&all[i], NULL, churn, &lots[i]) != 0) abort();
  for (int i = 1; i <= threads && i < MOST_THREADS; i++) pthread_join(all[i], NULL);
  if (argc > 3 && strcmp(argv[3], "fork") == 0) {
    pid_t child = fork();
    int status = 0;
    if (child > 0) return waitpid(child, &status, 0) == child ? WEXITSTATUS(status) : 4;
    memset(lots, 0, sizeof lots);
    lots[0].random = 1;
    churn(&lots[0]);
  }
  wait_for_reader();
  allocate_slowly();
  wait_for_reader();
  return 0;
}
