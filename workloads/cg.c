// SPDX-License-Identifier: Apache-2.0
// Conjugate gradients on a sparse symmetric matrix whose rows are numbered by chance: the matrix is
// read in order, the vector that it is multiplied with anywhere.
//
// cg [rows] [half: pairs of numbers in a row beside the diagonal] [iterations]
#include "form.h"

struct matrix {
  long rows, width;   // numbers in a row
  double* values;     // row by row
  uint32_t* columns;  // of them
};

NOINLINE static double* make_values(long count) {
  double* values = must(malloc((size_t)count * 8));
  return values;
}
NOINLINE static uint32_t* make_columns(long count) {
  uint32_t* columns = must(malloc((size_t)count * 4));
  return columns;
}
NOINLINE static double* make_vectors(long rows) {
  double* vectors = must(malloc((size_t)rows * 4 * 8));
  return vectors;
}
NOINLINE static uint32_t* make_order(long rows) {
  uint32_t* order = must(malloc((size_t)rows * 2 * 4));
  return order;
}

// Row i stands at place[i] of a ring, and is joined to those that stand the same few distances
// before and behind it: symmetric, whatever the numbering.
NOINLINE static void fill(const struct matrix* m, uint32_t* order, long half) {
  uint32_t* place = order + m->rows;
  for (long i = 0; i < m->rows; i++) order[i] = (uint32_t)i;
  for (long i = m->rows - 1; i > 0; i--) {
    long j = (long)(scatter((uint64_t)i) % (uint64_t)(i + 1));
    uint32_t swapped = order[i];
    order[i] = order[j];
    order[j] = swapped;
  }
  for (long i = 0; i < m->rows; i++) place[order[i]] = (uint32_t)i;
  for (long i = 0; i < m->rows; i++)
    for (long k = 0; k < m->width; k++) {
      long away = k ? 1 + (long)(scatter((uint64_t)((k + 1) / 2)) % (uint64_t)(m->rows - 1)) : 0;
      long there = (place[i] + (k % 2 ? away : m->rows - away)) % m->rows;
      m->columns[i * m->width + k] = order[there];
      m->values[i * m->width + k] = k ? 0.5 : 2.0 * (double)half + 1;
    }
}

// to = A from
NOINLINE static void multiply(const struct matrix* m, const double* from, double* to) {
  for (long i = 0; i < m->rows; i++) {
    double sum = 0;
    for (long k = 0; k < m->width; k++)
      sum += m->values[i * m->width + k] * from[m->columns[i * m->width + k]];
    to[i] = sum;
  }
}

NOINLINE static double product(const double* a, const double* b, long rows) {
  double sum = 0;
  for (long i = 0; i < rows; i++) sum += a[i] * b[i];
  return sum;
}

NOINLINE static double solve(const struct matrix* m, double* x, uint64_t iterations) {
  long n = m->rows;
  double *r = x + n, *p = r + n, *q = p + n;
  for (long i = 0; i < n; i++) {
    x[i] = 0;
    p[i] = r[i] = (double)(scatter((uint64_t)i) % 1000) / 1000;
  }
  double left = product(r, r, n);
  for (uint64_t step = 0; step < iterations; step++) {
    multiply(m, p, q);
    double far = left / product(p, q, n), before = left;
    for (long i = 0; i < n; i++) {
      x[i] += far * p[i];
      r[i] -= far * q[i];
    }
    left = product(r, r, n);
    for (long i = 0; i < n; i++) p[i] = r[i] + left / before * p[i];
  }
  return left;
}

int main(int argc, char** argv) {
  long rows = (long)argument(argc, argv, 1, 20000), half = (long)argument(argc, argv, 2, 5);
  uint64_t iterations = argument(argc, argv, 3, 5);
  if (rows < 2 || rows > 1l << 31 || half > 1000) {
    fprintf(stderr, "%s: from 2 rows on, and half up to 1000, please\n", argv[0]);
    return 2;
  }
  struct matrix m = {rows, 2 * half + 1, NULL, NULL};
  m.values = make_values(rows * m.width);
  m.columns = make_columns(rows * m.width);
  double* vectors = make_vectors(rows);
  uint32_t* order = make_order(rows);
  fill(&m, order, half);
  free(order);
  double left = solve(&m, vectors, iterations);
  printf("cg checksum=%llu\n", (unsigned long long)(bits_of(left) >> 8));
  free(vectors);
  free(m.columns);
  free(m.values);
  return 0;
}
