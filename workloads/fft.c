// SPDX-License-Identifier: Apache-2.0
// A fast Fourier transform of rows^2 complex numbers in six steps, as a square matrix: transpose,
// transform the rows, multiply by roots of unity, transpose, transform the rows, transpose.
//
// Rows are read in order and columns a row apart: a loop over all pages of two arrays, several
// times, in which every page is far from its last use.
//
// fft [rows: a power of two] [rounds]
#include "form.h"

struct number {
  double re, im;
};

static struct number times(struct number a, struct number b) {
  return (struct number){a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
}

// The n-th roots of unity for n a power of two, by halving angles: only exactly rounded operations,
// so that every machine has the same ones.
NOINLINE static void fill_roots(struct number* roots, long n) {
  struct number half[64] = {{-1, 0}, {0, -1}};
  int levels = 1;
  while (1l << levels < n) {
    if (levels > 1) {
      double c = __builtin_sqrt((1 + half[levels - 1].re) / 2);
      half[levels] = (struct number){c, half[levels - 1].im / (2 * c)};
    }
    levels++;
  }
  for (long i = 0; i < n; i++) {
    struct number root = {1, 0};
    for (int level = 0; level < levels; level++)
      if (i >> (levels - 1 - level) & 1) root = times(root, half[level]);
    roots[i] = root;
  }
}

NOINLINE static void transpose(const struct number* from, struct number* to, long rows) {
  for (long i = 0; i < rows; i++)
    for (long j = 0; j < rows; j++) to[j * rows + i] = from[i * rows + j];
}

// One row, in place: bits of the places reversed, then butterflies.
NOINLINE static void transform_row(struct number* row, long n, const struct number* roots) {
  for (long i = 1, j = 0; i < n; i++) {
    long bit = n >> 1;
    for (; j & bit; bit >>= 1) j ^= bit;
    j ^= bit;
    if (i < j) {
      struct number swapped = row[i];
      row[i] = row[j];
      row[j] = swapped;
    }
  }
  for (long size = 2; size <= n; size *= 2)
    for (long i = 0; i < n; i += size)
      for (long k = 0; k < size / 2; k++) {
        struct number a = row[i + k], b = times(row[i + k + size / 2], roots[k * (n / size)]);
        row[i + k] = (struct number){a.re + b.re, a.im + b.im};
        row[i + k + size / 2] = (struct number){a.re - b.re, a.im - b.im};
      }
}

// The n-th root to a power below n, from two tables of about the square root of n.
NOINLINE static void twist(struct number* data, long rows, const struct number* coarse,
                           const struct number* fine) {
  for (long i = 0; i < rows; i++)
    for (long j = 0; j < rows; j++) {
      long power = i * j;
      struct number root = times(coarse[power / rows], fine[power % rows]);
      data[i * rows + j] = times(data[i * rows + j], root);
    }
}

NOINLINE static void transform(struct number* data, struct number* work, long rows,
                               const struct number* coarse, const struct number* fine) {
  transpose(data, work, rows);
  for (long i = 0; i < rows; i++) transform_row(work + i * rows, rows, coarse);
  twist(work, rows, coarse, fine);
  transpose(work, data, rows);
  for (long i = 0; i < rows; i++) transform_row(data + i * rows, rows, coarse);
  transpose(data, work, rows);
}

NOINLINE static struct number* make_data(size_t bytes) {
  struct number* data = must(aligned_alloc(4096, bytes));
  return data;
}
NOINLINE static struct number* make_work(size_t bytes) {
  struct number* work = must(aligned_alloc(4096, bytes));
  return work;
}
NOINLINE static struct number* make_roots(long rows) {
  struct number* roots = must(malloc(2 * (size_t)rows * sizeof *roots));
  return roots;
}

NOINLINE static void fill(struct number* data, long n) {
  for (long i = 0; i < n; i++)
    data[i] = (struct number){(double)(scatter((uint64_t)i) % 1000) / 1000, 0};
}

NOINLINE static uint64_t sum_up(const struct number* data, long n) {
  uint64_t sum = 0;
  for (long i = 0; i < n; i++) sum += (bits_of(data[i].re) >> 8) + (bits_of(data[i].im) >> 8);
  return sum;
}

// The first `rows` powers of the root of all numbers: fine; coarse: those of the root of a row.
static void both_roots(struct number* coarse, struct number* fine, long rows, int log) {
  fill_roots(coarse, rows);
  struct number whole[64];
  struct number root = {-1, 0};
  for (int level = 0; level < 2 * log; level++) {  // the 2^(level + 1)-th root
    whole[level] = root;
    if (level == 0) {
      root = (struct number){0, -1};
    } else {
      double c = __builtin_sqrt((1 + root.re) / 2);
      root = (struct number){c, root.im / (2 * c)};
    }
  }
  for (long i = 0; i < rows; i++) {
    struct number power = {1, 0};
    for (int bit = 0; bit < log; bit++)
      if (i >> bit & 1) power = times(power, whole[2 * log - 1 - bit]);
    fine[i] = power;
  }
}

int main(int argc, char** argv) {
  long rows = (long)argument(argc, argv, 1, 256), n = rows * rows;
  uint64_t rounds = argument(argc, argv, 2, 2);
  if (rows < 4 || rows > 16384 || (rows & (rows - 1)) != 0) {
    fprintf(stderr, "%s: rows are a power of two from 4 to 16384, please\n", argv[0]);
    return 2;
  }
  int log = __builtin_ctzl((unsigned long)rows);
  size_t bytes = ((size_t)n * sizeof(struct number) + 4095) / 4096 * 4096;
  struct number *data = make_data(bytes), *work = make_work(bytes), *roots = make_roots(rows);
  both_roots(roots, roots + rows, rows, log);
  fill(data, n);
  for (uint64_t i = 0; i < rounds; i++) {
    transform(data, work, rows, roots, roots + rows);
    for (long j = 0; j < n; j++)
      data[j] = (struct number){work[j].re / (double)rows, work[j].im / (double)rows};
  }
  printf("fft checksum=%llu\n", (unsigned long long)sum_up(data, n));
  free(roots);
  free(work);
  free(data);
  return 0;
}
