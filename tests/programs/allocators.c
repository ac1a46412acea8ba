// SPDX-License-Identifier: Apache-2.0
// Every allocation function of C, with numbers that a recording must show exactly.
//
//   kind      born  by
//   malloc       3  malloc(100), malloc(0), and the buffer that printf takes
//   calloc       1  calloc(10, 20)
//   realloc      3  realloc(NULL, 30), realloc(block, 3000), reallocarray(block, 10, 600)
//   aligned      5  memalign, aligned_alloc, posix_memalign, valloc, pvalloc
//
// So 12 blocks are born. The two reallocs of a block each take one in. realloc(block, 0) and free
// end 9; printf's buffer lives on. The three failing calls make and free nothing. free(NULL) frees
// nothing. With WITHOUT_PVALLOC (jemalloc has none, and the C library's own would mix two heaps)
// there are 4 aligned blocks, so one birth and one free less.
#define _GNU_SOURCE
#include <malloc.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

// Reads as unknown to the compiler, so that no call is foreseen, merged or left out.
static volatile size_t zero = 0;
static volatile size_t huge = PTRDIFF_MAX;
static void* volatile sink;

static void* keep(void* block) {
  sink = block;
  return sink;
}

static int failures(void) {
  void* block = NULL;
  int failed = keep(malloc(huge)) == NULL;
  failed += keep(calloc(huge, 16)) == NULL;
  failed += posix_memalign(&block, 64, huge) != 0;
  return failed;
}

static int aligned_family(void) {
  void* block = NULL;
  if (posix_memalign(&block, 128, 70) != 0) return 0;
  void* blocks[] = {
      keep(block),       keep(memalign(64, 50)), keep(aligned_alloc(256, 512)), keep(valloc(60)),
#ifndef WITHOUT_PVALLOC
      keep(pvalloc(80)),
#endif
  };
  const uintptr_t alignments[] = {128, 64, 256, 4096, 4096};
  int right = 1;
  for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++) {
    right &= blocks[i] != NULL && (uintptr_t)blocks[i] % alignments[i] == 0;
    free(blocks[i]);
  }
  return right;
}

int main(void) {
  free(keep(malloc(100)));
  free(keep(malloc(zero)));
  free(keep(calloc(10, 20)));
  void* block = keep(realloc(keep(NULL), 30));
  block = keep(realloc(block, 3000));
  block = keep(reallocarray(block, 10, 600));
  int ended = keep(realloc(block, zero)) == NULL;
  free(keep(NULL));
  int aligned = aligned_family();
  printf("ended=%d aligned=%d failures=%d\n", ended, aligned, failures());
  return 0;
}
