// SPDX-License-Identifier: Apache-2.0
// A sparse matrix times a vector, rows compressed. Values and column numbers stream; the elements
// of the vector that they pick are anywhere.
//
// spmv [rows] [entries a row] [passes]
#include <string.h>

#include "random.h"

double *values, *input, *output;
uint32_t* columns;

NOINLINE static void make_matrix(uint64_t rows, uint64_t entries) {
  values = must(malloc(rows * entries * sizeof *values));
  columns = must(malloc(rows * entries * sizeof *columns));
  input = must(malloc(rows * sizeof *input));
  output = must(malloc(rows * sizeof *output));
  uint64_t state = 1;
  for (uint64_t i = 0; i < rows * entries; i++) {
    values[i] = (double)(next_random(&state) % 1000) / 1024;
    columns[i] = (uint32_t)(next_random(&state) % rows);
  }
  for (uint64_t i = 0; i < rows; i++) input[i] = (double)(scatter(i) % 1000) / 1024;
}

NOINLINE static void multiply(const double* entry, const uint32_t* column, const double* in,
                              double* out, uint64_t rows, uint64_t entries) {
  uint64_t at = 0;
  for (uint64_t i = 0; i < rows; i++) {
    double sum = 0;
    for (uint64_t end = at + entries; at < end; at++) sum += entry[at] * in[column[at]];
    out[i] = sum;
  }
}

int main(int argc, char** argv) {
  uint64_t rows = argument(argc, argv, 1, 30000), entries = argument(argc, argv, 2, 12);
  uint64_t passes = argument(argc, argv, 3, 4);
  make_matrix(rows, entries);
  uint64_t checksum = 0;
  for (uint64_t i = 0; i < passes; i++) {
    multiply(values, columns, input, output, rows, entries);
    uint64_t bits;
    memcpy(&bits, &output[i % rows], sizeof bits);
    checksum = checksum * 3 + bits;
    input[i % rows] += 1;
  }
  free(values);
  free(columns);
  free(input);
  free(output);
  printf("spmv checksum=%llu\n", (unsigned long long)checksum);
  return 0;
}
