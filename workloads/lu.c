// SPDX-License-Identifier: Apache-2.0
// LU factors of a dense matrix without pivoting, in blocks.
//
// contiguous: every block lies in one piece, so that it takes a page or two. scattered: the matrix
// lies row by row, so that every row of a block is in another page, and the pages that are used
// together are a row apart: neighbours in time, but not in memory.
//
// lu [n: rows, a multiple of block] [block: rows of a block] [contiguous|scattered]
#include "form.h"

struct matrix {
  double* data;
  long n, block;
  int contiguous;
};

// The first number of a block, and how far apart its rows are.
static double* block_of(const struct matrix* m, long i, long j) {
  if (m->contiguous) return m->data + (i * (m->n / m->block) + j) * m->block * m->block;
  return m->data + i * m->block * m->n + j * m->block;
}
static long step_of(const struct matrix* m) { return m->contiguous ? m->block : m->n; }

// The diagonal block's own factors.
NOINLINE static void factor(double* d, long step, long size) {
  for (long k = 0; k < size; k++)
    for (long i = k + 1; i < size; i++) {
      double by = d[i * step + k] /= d[k * step + k];
      for (long j = k + 1; j < size; j++) d[i * step + j] -= by * d[k * step + j];
    }
}

// A block of the row beside the diagonal block.
NOINLINE static void solve_row(double* a, const double* d, long step, long size) {
  for (long k = 0; k < size; k++)
    for (long i = k + 1; i < size; i++)
      for (long j = 0; j < size; j++) a[i * step + j] -= d[i * step + k] * a[k * step + j];
}

// A block of the column below it.
NOINLINE static void solve_column(double* a, const double* d, long step, long size) {
  for (long i = 0; i < size; i++)
    for (long k = 0; k < size; k++) {
      double by = a[i * step + k] /= d[k * step + k];
      for (long j = k + 1; j < size; j++) a[i * step + j] -= by * d[k * step + j];
    }
}

// c -= a b
NOINLINE static void update(double* c, const double* a, const double* b, long step, long size) {
  for (long i = 0; i < size; i++)
    for (long k = 0; k < size; k++) {
      double by = a[i * step + k];
      for (long j = 0; j < size; j++) c[i * step + j] -= by * b[k * step + j];
    }
}

NOINLINE static void factors(const struct matrix* m) {
  long blocks = m->n / m->block, step = step_of(m), size = m->block;
  for (long k = 0; k < blocks; k++) {
    double* d = block_of(m, k, k);
    factor(d, step, size);
    for (long j = k + 1; j < blocks; j++) solve_row(block_of(m, k, j), d, step, size);
    for (long i = k + 1; i < blocks; i++) solve_column(block_of(m, i, k), d, step, size);
    for (long i = k + 1; i < blocks; i++)
      for (long j = k + 1; j < blocks; j++)
        update(block_of(m, i, j), block_of(m, i, k), block_of(m, k, j), step, size);
  }
}

static double* at(const struct matrix* m, long i, long j) {
  return block_of(m, i / m->block, j / m->block) + i % m->block * step_of(m) + j % m->block;
}

NOINLINE static double* make_matrix(long n) {
  double* data = must(aligned_alloc(4096, ((size_t)n * (size_t)n * 8 + 4095) / 4096 * 4096));
  return data;
}

// A large diagonal keeps the factors small.
NOINLINE static void fill(const struct matrix* m) {
  for (long i = 0; i < m->n; i++)
    for (long j = 0; j < m->n; j++)
      *at(m, i, j) = (double)(scatter((uint64_t)(i * m->n + j)) % 1000) / 1000 +
                     (i == j ? 2.0 * (double)m->n : 0);
}

NOINLINE static uint64_t sum_up(const struct matrix* m) {
  uint64_t sum = 0;
  for (long i = 0; i < m->n; i++)
    for (long j = 0; j < m->n; j++) sum += bits_of(*at(m, i, j)) >> 8;
  return sum;
}

int main(int argc, char** argv) {
  static const char* const layouts[] = {"contiguous", "scattered", NULL};
  long n = (long)argument(argc, argv, 1, 512), block = (long)argument(argc, argv, 2, 16);
  int layout = form_argument(argc, argv, 3, layouts);
  if (block > n || n % block != 0) {
    fprintf(stderr, "%s: n is a multiple of block, please\n", argv[0]);
    return 2;
  }
  struct matrix m = {make_matrix(n), n, block, layout == 0};
  fill(&m);
  factors(&m);
  printf("lu checksum=%llu\n", (unsigned long long)sum_up(&m));
  free(m.data);
  return 0;
}
