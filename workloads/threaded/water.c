// SPDX-License-Identifier: Apache-2.0
// Molecules that all pull at each other: every member works out the forces on its share of them
// from the places of all, then moves its own. Much arithmetic, little memory.
//
// water [molecules] [steps]
#include "team.h"

#define MOST 512
static LINE struct { double x, y, z, rest[5]; } places[MOST];
static LINE double speeds[MOST][8];
static long count, steps;

NOINLINE static void pull(long me) {
  for (long i = me * count / MEMBERS; i < (me + 1) * count / MEMBERS; i++) {
    double fx = 0, fy = 0, fz = 0;
    for (long j = 0; j < count; j++) {
      double dx = places[j].x - places[i].x, dy = places[j].y - places[i].y;
      double dz = places[j].z - places[i].z;
      double near = 1 / (dx * dx + dy * dy + dz * dz + 0.1);
      double force = near * near * (1 - near) + 1e-3 * near;
      fx += dx * force;
      fy += dy * force;
      fz += dz * force;
    }
    speeds[i][0] += 1e-3 * fx;
    speeds[i][1] += 1e-3 * fy;
    speeds[i][2] += 1e-3 * fz;
  }
}
NOINLINE static void move(long me) {
  for (long i = me * count / MEMBERS; i < (me + 1) * count / MEMBERS; i++) {
    places[i].x += 1e-3 * speeds[i][0];
    places[i].y += 1e-3 * speeds[i][1];
    places[i].z += 1e-3 * speeds[i][2];
  }
}

static void work(long me) {
  for (long step = 0; step < steps; step++) {
    pull(me);
    team_wait();
    move(me);
    team_wait();
  }
}

int main(int argc, char** argv) {
  count = team_argument(argc, argv, 1, 160);
  steps = team_argument(argc, argv, 2, 12);
  if (count > MOST) count = MOST;
  for (long i = 0; i < count; i++) {
    places[i].x = fraction((uint64_t)(3 * i));
    places[i].y = fraction((uint64_t)(3 * i + 1));
    places[i].z = fraction((uint64_t)(3 * i + 2));
  }
  team_run();
  printf("first=%.6f\n", places[0].x);
  return 0;
}
