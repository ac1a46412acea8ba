// SPDX-License-Identifier: Apache-2.0
// Red-black relaxation on a grid, by bands of rows: neighbours share the rows at their border, and
// all else streams through the caches.
//
// ocean [n: rows] [sweeps]
#include "team.h"

static double *grid, *source;
static long n, sweeps;

NOINLINE static void relax(long from, long to, long colour) {
  for (long i = from; i < to; i++)
    for (long j = 1 + (i + colour) % 2; j < n - 1; j += 2)
      grid[i * n + j] = 0.25 * (grid[(i - 1) * n + j] + grid[(i + 1) * n + j] +
                                grid[i * n + j - 1] + grid[i * n + j + 1] - source[i * n + j]);
}

static void work(long me) {
  long rows = (n - 2) / MEMBERS, from = 1 + me * rows;
  long to = me == MEMBERS - 1 ? n - 1 : from + rows;
  for (long i = from * n; i < to * n; i++) {
    grid[i] = 0;
    source[i] = fraction((uint64_t)i);
  }
  team_wait();
  for (long sweep = 0; sweep < 2 * sweeps; sweep++) {
    relax(from, to, sweep % 2);
    team_wait();
  }
}

int main(int argc, char** argv) {
  n = team_argument(argc, argv, 1, 514);
  sweeps = team_argument(argc, argv, 2, 2);
  size_t bytes = ((size_t)(n * n) * sizeof *grid + 4095) / 4096 * 4096;
  grid = aligned_alloc(4096, bytes);
  source = aligned_alloc(4096, bytes);
  if (!grid || !source) abort();
  for (long j = 0; j < n; j++) grid[j] = grid[(n - 1) * n + j] = 1;
  team_run();
  printf("middle=%.6f\n", grid[n / 2 * n + n / 2]);
  free(grid);
  free(source);
  return 0;
}
