// SPDX-License-Identifier: Apache-2.0
// Particles on a line, dealt to the members in turn, so that two or more members write to each line
// of memory. A step moves each particle by what pulls it to its neighbours.
//
// particles [count] [steps]
#include "team.h"

#define MOST 4096
static LINE struct { double place, speed; } all[MOST];
static long count, steps;

NOINLINE static void move(long me) {
  for (long i = 1 + me; i < count - 1; i += MEMBERS) {
    double pull = all[i - 1].place + all[i + 1].place - 2 * all[i].place;
    double speed = 0.999 * all[i].speed + 0.01 * pull;
    double more = pull * pull;
    for (int k = 0; k < 4; k++) speed += 1e-6 * more, more *= pull;
    all[i].speed = speed;
    all[i].place += 0.01 * speed;
  }
}

static void work(long me) {
  for (long step = 0; step < steps; step++) {
    move(me);
    team_wait();
  }
}

int main(int argc, char** argv) {
  count = team_argument(argc, argv, 1, 1024);
  steps = team_argument(argc, argv, 2, 150);
  if (count > MOST) count = MOST;
  for (long i = 0; i < count; i++) all[i].place = (double)i + fraction((uint64_t)i);
  team_run();
  printf("first=%.3f\n", all[1].place);
  return 0;
}
