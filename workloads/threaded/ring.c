// SPDX-License-Identifier: Apache-2.0
// A block of data goes around a ring: one member after the other reads and writes all of it twice,
// while the others work on data of their own.
//
// ring [steps]
#include "team.h"

#define WORDS 256
static LINE uint64_t token[WORDS];
static LINE uint64_t own[MEMBERS][512];
static long steps;

NOINLINE static void pass_on(void) {
  for (int round = 0; round < 2; round++)
    for (int i = 0; i < WORDS; i++) token[i] = token[i] * 5 + (uint64_t)i;
}
NOINLINE static void keep_busy(uint64_t* mine) {
  for (int i = 0; i < 512; i++) mine[i] = mine[i] * 3 + 1;
}

static void work(long me) {
  for (long step = 0; step < steps; step++) {
    if (step % MEMBERS == me)
      pass_on();
    else
      keep_busy(own[me]);
    team_wait();
  }
}

int main(int argc, char** argv) {
  steps = team_argument(argc, argv, 1, 400);
  team_run();
  printf("token=%llx\n", (unsigned long long)token[WORDS - 1]);
  return 0;
}
