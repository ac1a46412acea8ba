// SPDX-License-Identifier: Apache-2.0
// Three phases of known size, for measuring a part of a run: warmup() loads 10,000 words, work()
// 20,000 (in 2 calls of 10,000), cool() 30,000. Each load is one iteration of a loop.
#include <stdio.h>

static volatile unsigned words[1000];

__attribute__((noinline)) static unsigned warmup(void) {
  unsigned sum = 0;
  for (int i = 0; i < 10000; i++) sum += words[i % 1000];
  return sum;
}

__attribute__((noinline)) static unsigned work(void) {
  unsigned sum = 1;
  for (int i = 0; i < 10000; i++) sum += words[i % 1000] * 2;
  return sum;
}

__attribute__((noinline)) static unsigned cool(void) {
  unsigned sum = 2;
  for (int i = 0; i < 30000; i++) sum += words[i % 1000] * 3;
  return sum;
}

int main(void) {
  for (unsigned i = 0; i < 1000; i++) words[i] = i;
  unsigned sum = warmup();
  for (int i = 0; i < 2; i++) sum += work();
  sum += cool();
  printf("sum=%u\n", sum);
  return 0;
}
