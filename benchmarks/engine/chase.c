// SPDX-License-Identifier: Apache-2.0
// Nanoseconds of one load that needs the one before: chase KIB [huge]. The lines of a block are
// visited in random order, so that no prefetcher helps; with `huge`, in pages of 2 MiB where the
// kernel has them. KIB of 0: of one addition, which takes a cycle. With `stream`: of one line of a
// block that is read in order, as fast as it goes.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static double addition(void) {
  const long steps = 200000000;
  uint64_t sum = 1;
  double begun = now();
  for (long i = 0; i < steps / 8; i++)
    __asm__ volatile(
        "add %0, %0\n add %0, %0\n add %0, %0\n add %0, %0\n"
        "add %0, %0\n add %0, %0\n add %0, %0\n add %0, %0\n"
        : "+r"(sum));
  return (now() - begun) / (double)steps;
}

static uint32_t* shuffled(long count) {
  uint32_t* order = malloc((size_t)count * sizeof *order);
  if (order == NULL) exit(1);
  uint64_t state = 1;
  for (long i = 0; i < count; i++) order[i] = (uint32_t)i;
  for (long i = count - 1; i > 0; i--) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    long j = (long)((state >> 33) % (uint64_t)(i + 1));
    uint32_t held = order[i];
    order[i] = order[j];
    order[j] = held;
  }
  return order;
}

static double load(long kib, int huge) {
  const size_t large = (size_t)1 << 21;
  long lines = kib * 16;
  size_t bytes = ((size_t)kib * 1024 + large - 1) / large * large;
  char* block = aligned_alloc(large, bytes);
  if (block == NULL) exit(1);
  madvise(block, bytes, huge ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
  uint32_t* order = shuffled(lines);
  for (long i = 0; i < lines; i++)
    *(uint64_t*)(block + 64 * (size_t)order[i]) = 64 * (uint64_t)order[(i + 1) % lines];
  free(order);
  volatile uint64_t at = 0;
  uint64_t next = at;
  for (long i = 0; i < lines; i++) next = *(volatile uint64_t*)(block + next);
  long steps = lines < 500000 ? 500000 : lines;
  double begun = now();
  for (long i = 0; i < steps; i++) next = *(volatile uint64_t*)(block + next);
  double took = now() - begun;
  at = next;
  free(block);
  return took / (double)steps;
}

static double stream(long kib) {
  size_t bytes = (size_t)kib * 1024;
  char* block = malloc(bytes);
  if (block == NULL) exit(1);
  memset(block, 1, bytes);
  const int times = 16;
  uint64_t sum = 0;
  double begun = now();
  for (int i = 0; i < times; i++)
    for (size_t at = 0; at < bytes; at += 64) sum += *(volatile uint64_t*)(block + at);
  double took = now() - begun;
  volatile uint64_t kept = sum;
  (void)kept;
  free(block);
  return took / ((double)times * (double)(bytes / 64));
}

int main(int argc, char** argv) {
  long kib = argc > 1 ? atol(argv[1]) : 0;
  const char* how = argc > 2 ? argv[2] : "";
  if (strcmp(how, "stream") == 0)
    printf("%.4f\n", stream(kib));
  else
    printf("%.4f\n", kib > 0 ? load(kib, *how != 0) : addition());
  return 0;
}
