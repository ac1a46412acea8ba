// SPDX-License-Identifier: Apache-2.0
// LU factorisation without pivoting, in blocks that lie in one piece each and belong to one member.
// A block is written by its owner and read by those whose blocks depend on it.
//
// lu [blocks: a row]
#include "team.h"

#define SIDE 16
#define MOST 24
typedef double block[SIDE][SIDE];
static LINE block all[MOST][MOST];
static long blocks;

static long owner(long i, long j) { return (i % 2) * 2 + j % 2; }

NOINLINE static void factor(block a) {
  for (int k = 0; k < SIDE; k++)
    for (int i = k + 1; i < SIDE; i++) {
      a[i][k] /= a[k][k];
      for (int j = k + 1; j < SIDE; j++) a[i][j] -= a[i][k] * a[k][j];
    }
}
NOINLINE static void solve_right(block a, block diagonal) {
  for (int k = 0; k < SIDE; k++)
    for (int i = k + 1; i < SIDE; i++)
      for (int j = 0; j < SIDE; j++) a[i][j] -= diagonal[i][k] * a[k][j];
}
NOINLINE static void solve_below(block a, block diagonal) {
  for (int k = 0; k < SIDE; k++)
    for (int i = 0; i < SIDE; i++) {
      a[i][k] /= diagonal[k][k];
      for (int j = k + 1; j < SIDE; j++) a[i][j] -= a[i][k] * diagonal[k][j];
    }
}
NOINLINE static void update(block a, block left, block above) {
  for (int i = 0; i < SIDE; i++)
    for (int k = 0; k < SIDE; k++)
      for (int j = 0; j < SIDE; j++) a[i][j] -= left[i][k] * above[k][j];
}

static void work(long me) {
  for (long k = 0; k < blocks; k++) {
    if (owner(k, k) == me) factor(all[k][k]);
    team_wait();
    for (long i = k + 1; i < blocks; i++) {
      if (owner(i, k) == me) solve_below(all[i][k], all[k][k]);
      if (owner(k, i) == me) solve_right(all[k][i], all[k][k]);
    }
    team_wait();
    for (long i = k + 1; i < blocks; i++)
      for (long j = k + 1; j < blocks; j++)
        if (owner(i, j) == me) update(all[i][j], all[i][k], all[k][j]);
    team_wait();
  }
}

int main(int argc, char** argv) {
  blocks = team_argument(argc, argv, 1, 6);
  if (blocks > MOST) blocks = MOST;
  for (long i = 0; i < blocks * SIDE; i++)
    for (long j = 0; j < blocks * SIDE; j++)
      all[i / SIDE][j / SIDE][i % SIDE][j % SIDE] =
          fraction((uint64_t)(i * 1000 + j)) + (i == j ? (double)(blocks * SIDE) : 0);
  team_run();
  printf("last=%.6f\n", all[blocks - 1][blocks - 1][SIDE - 1][SIDE - 1]);
  return 0;
}
