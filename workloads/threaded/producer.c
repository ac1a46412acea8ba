// SPDX-License-Identifier: Apache-2.0
// One member produces, the others consume: each item is a line of which two words are written and
// read by all, step by step.
//
// producer [steps] [items: a step]
#include "team.h"

#define MOST 256
static LINE struct { uint64_t number, value, rest[6]; } items[MOST];
static LINE uint64_t sums[MEMBERS][8];
static long steps, count;

NOINLINE static void produce(long step) {
  for (long i = 0; i < count; i++) {
    items[i].value = scatter((uint64_t)(step * count + i));
    items[i].number = (uint64_t)step;
  }
}
NOINLINE static uint64_t consume(void) {
  uint64_t sum = 0;
  for (long i = 0; i < count; i++) sum += items[i].value ^ scatter(items[i].number);
  return sum;
}

static void work(long me) {
  for (long step = 0; step < steps; step++) {
    if (me == 0) produce(step);
    team_wait();
    if (me != 0) sums[me][0] += consume();
    team_wait();
  }
}

int main(int argc, char** argv) {
  steps = team_argument(argc, argv, 1, 300);
  count = team_argument(argc, argv, 2, 128);
  if (count > MOST) count = MOST;
  team_run();
  printf("sums=%llx\n", (unsigned long long)(sums[1][0] ^ sums[2][0] ^ sums[3][0]));
  return 0;
}
