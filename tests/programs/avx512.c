// SPDX-License-Identifier: Apache-2.0
// Needs AVX-512 in its own code: the sum runs in 512-bit registers whatever the processor says.
#include <immintrin.h>
#include <stdio.h>

__attribute__((noinline)) static int sum(const int* numbers, int count) {
  __m512i total = _mm512_setzero_si512();
  for (int i = 0; i < count; i += 16)
    total = _mm512_add_epi32(total, _mm512_loadu_si512(numbers + i));
  return _mm512_reduce_add_epi32(total);
}

int main(void) {
  static int numbers[1024];
  for (int i = 0; i < 1024; i++) numbers[i] = i;
  printf("sum=%d\n", sum(numbers, 1024));
  return 0;
}
