// SPDX-License-Identifier: Apache-2.0
// Lines that are prefetched before they are read, each array by another form of the instruction,
// and one that is not.
#include <stdio.h>

enum { LINES = 40, LINE = 64 };
#define ARRAY static volatile char __attribute__((aligned(LINE)))
ARRAY plain[LINES * LINE], none[LINES * LINE], based[LINES * LINE], scaled[LINES * LINE];
ARRAY lost[LINES * LINE], maybe[LINES * LINE], written[LINES * LINE], near[LINE];
static __thread volatile char own[4 * LINE] __attribute__((aligned(LINE)));

#define NOINLINE __attribute__((noipa))

NOINLINE static int read_all(volatile char* array) {
  int sum = 0;
  for (int i = 0; i < LINES; i++) sum += array[i * LINE];
  return sum;
}
NOINLINE static int prefetch_maybe(volatile char* line, int a, int b) {
  if (a > 3 && ({
        __asm__ volatile("prefetcht1 (%0)" : : "r"(line));
        b > 2;
      }))
    return a;
  return b;
}

NOINLINE static void prefetch_all(void) {
  for (long i = 0; i < LINES; i++) {
    __builtin_prefetch((char*)plain + i * LINE);
    __asm__ volatile("prefetchnta -8(%0)" : : "r"(based + i * LINE + 8));
    __asm__ volatile("prefetcht2 16(%0,%1,8)" : : "r"((long)scaled - 16), "r"(i * LINE / 8));
    __asm__ volatile("prefetchw (%0)" : : "r"(written + i * LINE));
    // The register that holds the address is known to nobody else, and overwritten at once.
    __asm__ volatile(
        "lea (%0,%1), %%r13\n\t"
        "prefetcht0 (%%r13)\n\t"
        "xor %%r13d, %%r13d"
        :
        : "r"(lost), "r"(i * LINE)
        : "r13", "cc");
  }
  for (int i = 0; i < LINES; i++) prefetch_maybe(maybe + i * LINE, 4 + i % 2, i % 5);
  __asm__ volatile("prefetcht0 near(%rip)");
  __asm__ volatile("mov $own@tpoff, %%rax\n\tprefetcht0 %%fs:(%%rax)" : : : "rax");
}

int main(void) {
  prefetch_all();
  int sum = read_all(plain) + read_all(none) + read_all(based) + read_all(scaled);
  sum += read_all(lost) + read_all(maybe) + read_all(written) + near[0] + own[0];
  printf("sum=%d\n", sum);
  return sum;
}
