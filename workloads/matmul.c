// SPDX-License-Identifier: Apache-2.0
// C = A * B by the plain triple loop. A is read along its rows and C is written once; B is read
// down its columns, so each step of the innermost loop touches another line of B.
//
// matmul [n]
#include "random.h"

double *A, *B, *C;

NOINLINE static void make_matrices(uint64_t n) {
  A = must(malloc(n * n * sizeof *A));
  B = must(malloc(n * n * sizeof *B));
  C = must(malloc(n * n * sizeof *C));
}

NOINLINE static void fill(double* matrix, uint64_t n, uint64_t seed) {
  for (uint64_t i = 0; i < n * n; i++) matrix[i] = (double)(scatter(seed + i) % 16);
}

NOINLINE static void multiply(const double* a, const double* b, double* c, uint64_t n) {
  for (uint64_t i = 0; i < n; i++)
    for (uint64_t j = 0; j < n; j++) {
      double sum = 0;
      for (uint64_t k = 0; k < n; k++) sum += a[i * n + k] * b[k * n + j];
      c[i * n + j] = sum;
    }
}

NOINLINE static uint64_t trace(const double* matrix, uint64_t n) {
  uint64_t sum = 0;
  for (uint64_t i = 0; i < n; i++) sum = sum * 3 + (uint64_t)matrix[i * n + i];
  return sum;
}

int main(int argc, char** argv) {
  uint64_t n = argument(argc, argv, 1, 200);
  make_matrices(n);
  fill(A, n, 1);
  fill(B, n, 2);
  multiply(A, B, C, n);
  printf("matmul checksum=%llu\n", (unsigned long long)trace(C, n));
  free(A);
  free(B);
  free(C);
  return 0;
}
