// SPDX-License-Identifier: Apache-2.0
// Sums over global arrays. All the large sums read every element once a pass; what differs is the
// order. sequential_data uses each line eight times in a row; strided_data comes back to a line
// only after a sweep over the whole array; resident_data fits in any cache; untouched_data is never
// used.
//
// array [elements, at most 524288] [passes] [stride]
#include "random.h"

#define LARGEST 524288
#define RESIDENT 512

uint64_t sequential_data[LARGEST];
uint64_t strided_data[LARGEST];
uint64_t resident_data[RESIDENT];
uint64_t untouched_data[LARGEST / 4];

NOINLINE static void fill(uint64_t* data, uint64_t count, uint64_t seed) {
  for (uint64_t i = 0; i < count; i++) data[i] = scatter(seed + i);
}

NOINLINE static uint64_t sum_sequential(const uint64_t* data, uint64_t count, uint64_t sum) {
  for (uint64_t i = 0; i < count; i++) sum += data[i];
  return sum;
}

NOINLINE static uint64_t sum_strided(const uint64_t* data, uint64_t count, uint64_t stride,
                                     uint64_t sum) {
  for (uint64_t start = 0; start < stride; start++)
    for (uint64_t i = start; i < count; i += stride) sum ^= data[i] + i;
  return sum;
}

NOINLINE static uint64_t sum_resident(const uint64_t* data, uint64_t repeats, uint64_t sum) {
  for (uint64_t i = 0; i < repeats; i++) sum += data[i % RESIDENT] ^ i;
  return sum;
}

int main(int argc, char** argv) {
  uint64_t elements = argument(argc, argv, 1, LARGEST), passes = argument(argc, argv, 2, 8);
  uint64_t stride = argument(argc, argv, 3, 16);
  if (elements > LARGEST || stride > elements) {
    fprintf(stderr, "%s: stride <= elements <= %d, please\n", argv[0], LARGEST);
    return 2;
  }
  fill(sequential_data, elements, 1);
  fill(strided_data, elements, 2);
  fill(resident_data, RESIDENT, 3);
  uint64_t checksum = 0;
  for (uint64_t i = 0; i < passes; i++) {
    checksum = sum_sequential(sequential_data, elements, checksum);
    checksum = sum_strided(strided_data, elements, stride, checksum) + i;
    checksum = sum_resident(resident_data, elements, checksum);
  }
  printf("array checksum=%llu\n", (unsigned long long)checksum);
  return 0;
}
