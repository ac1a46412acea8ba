// SPDX-License-Identifier: Apache-2.0
// Steps of a simple ocean: the streamfunction psi follows from the vorticity by red-black
// relaxation, and the vorticity from its own flow. Every sweep goes over whole grids in order.
//
// ocean [n: rows of a grid] [steps] [sweeps: of relaxation in a step]
#include "form.h"

NOINLINE static double* make_psi(size_t bytes) {
  double* psi = must(aligned_alloc(4096, bytes));
  return psi;
}
NOINLINE static double* make_vorticity(size_t bytes) {
  double* vorticity = must(aligned_alloc(4096, bytes));
  return vorticity;
}
NOINLINE static double* make_flow(size_t bytes) {
  double* flow = must(aligned_alloc(4096, bytes));
  return flow;
}

// The points of one colour: each from its four neighbours, which have the other.
NOINLINE static void relax(double* psi, const double* vorticity, long n, long colour) {
  for (long i = 1; i < n - 1; i++)
    for (long j = 1 + (i + colour) % 2; j < n - 1; j += 2) {
      double around =
          psi[(i - 1) * n + j] + psi[(i + 1) * n + j] + psi[i * n + j - 1] + psi[i * n + j + 1];
      psi[i * n + j] = 0.25 * (around - vorticity[i * n + j]);
    }
}

// What the flow along psi carries of the vorticity.
NOINLINE static void carry(const double* psi, const double* vorticity, double* flow, long n) {
  for (long i = 1; i < n - 1; i++)
    for (long j = 1; j < n - 1; j++) {
      double across = psi[(i + 1) * n + j] - psi[(i - 1) * n + j];
      double along = psi[i * n + j + 1] - psi[i * n + j - 1];
      flow[i * n + j] = 0.25 * (along * (vorticity[(i + 1) * n + j] - vorticity[(i - 1) * n + j]) -
                                across * (vorticity[i * n + j + 1] - vorticity[i * n + j - 1]));
    }
}

NOINLINE static void advance(double* vorticity, const double* flow, long n) {
  for (long i = 0; i < n * n; i++) vorticity[i] = 0.999 * vorticity[i] + 0.001 * flow[i];
}

NOINLINE static void fill(double* psi, double* vorticity, double* flow, long n) {
  for (long i = 0; i < n * n; i++) {
    psi[i] = flow[i] = 0;
    vorticity[i] = (double)(scatter((uint64_t)i) % 1000) / 1000 - 0.5;
  }
}

NOINLINE static uint64_t sum_up(const double* grid, long n) {
  uint64_t sum = 0;
  for (long i = 0; i < n * n; i++) sum += bits_of(grid[i]) >> 8;
  return sum;
}

int main(int argc, char** argv) {
  long n = (long)argument(argc, argv, 1, 386);
  uint64_t steps = argument(argc, argv, 2, 3), sweeps = argument(argc, argv, 3, 4);
  if (n < 4 || n > 20000) {
    fprintf(stderr, "%s: n is from 4 to 20000, please\n", argv[0]);
    return 2;
  }
  size_t bytes = ((size_t)n * (size_t)n * 8 + 4095) / 4096 * 4096;
  double *psi = make_psi(bytes), *vorticity = make_vorticity(bytes), *flow = make_flow(bytes);
  fill(psi, vorticity, flow, n);
  for (uint64_t step = 0; step < steps; step++) {
    for (uint64_t sweep = 0; sweep < sweeps; sweep++)
      for (long colour = 0; colour < 2; colour++) relax(psi, vorticity, n, colour);
    carry(psi, vorticity, flow, n);
    advance(vorticity, flow, n);
  }
  printf("ocean checksum=%llu\n", (unsigned long long)(sum_up(psi, n) + sum_up(vorticity, n)));
  free(flow);
  free(vorticity);
  free(psi);
  return 0;
}
