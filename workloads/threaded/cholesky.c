// SPDX-License-Identifier: Apache-2.0
// Cholesky factorisation by columns: when a column is done, every member takes it into the columns
// that it owns, which are dealt in turn.
//
// cholesky [n]
#include <math.h>

#include "team.h"

#define MOST 256
static LINE double a[MOST][MOST];  // by columns
static long n;

NOINLINE static void finish(long k) {
  double root = sqrt(a[k][k]);
  for (long i = k; i < n; i++) a[k][i] /= root;
}
NOINLINE static void take_in(long j, long k) {
  double factor = a[k][j];
  for (long i = j; i < n; i++) a[j][i] -= factor * a[k][i];
}

static void work(long me) {
  for (long k = 0; k < n; k++) {
    if (k % MEMBERS == me) finish(k);
    team_wait();
    for (long j = k + 1; j < n; j++)
      if (j % MEMBERS == me) take_in(j, k);
    team_wait();
  }
}

int main(int argc, char** argv) {
  n = team_argument(argc, argv, 1, 96);
  if (n > MOST) n = MOST;
  for (long j = 0; j < n; j++)
    for (long i = j; i < n; i++)
      a[j][i] = (i == j ? 2.0 * (double)n : 0) + fraction((uint64_t)(j * MOST + i));
  team_run();
  printf("last=%.6f\n", a[n - 1][n - 1]);
  return 0;
}
