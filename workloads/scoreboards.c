// SPDX-License-Identifier: Apache-2.0
// Threads in groups. Each group has a scoreboard that its members update by atomic additions; each
// thread also walks data of its own, and all of them count their rounds in one place. Threads start
// in an order shuffled by the seed, so that neither their numbers nor their ages give the groups
// away; their names do: worker-GROUP-MEMBER.
//
// scoreboards [threads] [groups] [rounds] [seed] [equal|unequal]
#define _GNU_SOURCE
#include "threads.h"

#define SLOTS 64             // of a scoreboard, 8 bytes each
#define UPDATES 16           // of a scoreboard in one round
#define PRIVATE_WORDS 4096u  // of a thread's own data
#define PRIVATE_STEP 8       // words: one cache line

struct worker {
  pthread_t thread;
  uint64_t number, group, member, rounds;
  uint64_t* scoreboard;
  uint64_t* private_data;
  uint64_t checksum;
  uint64_t padding[24];  // no two workers in a line
};

uint64_t rounds_done;  // shared by all threads
static pthread_barrier_t start_line;

NOINLINE static uint64_t* make_scoreboard(void) {
  uint64_t* board = must(aligned_alloc(64, SLOTS * sizeof *board));
  memset(board, 0, SLOTS * sizeof *board);
  return board;
}

NOINLINE static uint64_t* make_private_data(uint64_t seed) {
  uint64_t* data = must(aligned_alloc(64, PRIVATE_WORDS * sizeof *data));
  for (uint64_t i = 0; i < PRIVATE_WORDS; i++) data[i] = scatter(seed + i);
  return data;
}

// Returns the random state for the next round: behind a pointer it would be stored at every step.
NOINLINE static uint64_t update_scoreboard(uint64_t* board, uint64_t state) {
  for (int i = 0; i < UPDATES; i++)
    __atomic_fetch_add(&board[next_random(&state) % SLOTS], 1, __ATOMIC_RELAXED);
  return state;
}

NOINLINE static uint64_t walk_private_data(const uint64_t* data, uint64_t sum) {
  for (uint64_t i = 0; i < PRIVATE_WORDS; i += PRIVATE_STEP) sum = sum * 3 + data[i];
  return sum;
}

static void* work(void* argument) {
  struct worker* self = argument;
  uint64_t state = self->number << 32;
  pthread_barrier_wait(&start_line);
  for (uint64_t i = 0; i < self->rounds; i++) {
    state = update_scoreboard(self->scoreboard, state);
    self->checksum = walk_private_data(self->private_data, self->checksum);
    __atomic_fetch_add(&rounds_done, 1, __ATOMIC_RELAXED);
  }
  return NULL;
}

NOINLINE static struct worker* make_workers(const struct groups* groups, uint64_t rounds,
                                            uint64_t** boards) {
  struct worker* workers = must(calloc(groups->threads, sizeof *workers));
  for (uint64_t i = 0; i < groups->threads; i++) {
    struct worker* worker = &workers[i];
    worker->number = i + 1;
    worker->group = group_of(groups, i);
    worker->member = member_of(groups, i);
    worker->rounds = rounds;
    worker->scoreboard = boards[worker->group];
    worker->private_data = make_private_data(i * PRIVATE_WORDS);
  }
  return workers;
}

static uint64_t finish(struct worker* workers, uint64_t threads) {
  uint64_t checksum = 0;
  for (uint64_t i = 0; i < threads; i++) {
    pthread_join(workers[i].thread, NULL);
    checksum = checksum * 3 + workers[i].checksum;
    free(workers[i].private_data);
  }
  return checksum;
}

int main(int argc, char** argv) {
  uint64_t threads = argument(argc, argv, 1, 12), groups = argument(argc, argv, 2, 3);
  uint64_t rounds = argument(argc, argv, 3, 500), seed = argument(argc, argv, 4, 1);
  struct groups sizes = make_groups(argc, argv, threads, groups, 5);
  uint64_t **boards = must(malloc(groups * sizeof *boards)), order[MOST_THREADS], points = 0;
  for (uint64_t i = 0; i < groups; i++) boards[i] = make_scoreboard();
  struct worker* workers = make_workers(&sizes, rounds, boards);
  shuffle(order, threads, seed);
  pthread_barrier_init(&start_line, NULL, (unsigned)threads);
  for (uint64_t i = 0; i < threads; i++) {
    struct worker* worker = &workers[order[i]];
    worker->thread = start_thread(worker->group, worker->member, work, worker);
  }
  uint64_t checksum = finish(workers, threads);
  for (uint64_t i = 0; i < groups; i++) {
    for (int slot = 0; slot < SLOTS; slot++) points = points * 3 + boards[i][slot];
    free(boards[i]);
  }
  printf("scoreboards rounds_done=%llu checksum=%llu\n", (unsigned long long)rounds_done,
         (unsigned long long)(checksum ^ points));
  free(workers);
  free(boards);
  return 0;
}
