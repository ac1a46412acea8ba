// SPDX-License-Identifier: Apache-2.0
// Prints the distance from each heap block to the next one made, over a mix of allocation functions
// and frees. A recorder that changes the heap's layout changes these numbers. Blocks stay below the
// size at which the C library takes a mapping of their own, whose address would be random.
#define _GNU_SOURCE
#include <malloc.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define STEPS 300
#define SLOTS 40

static void* make(unsigned kind, size_t size, void* old) {
  void* block = NULL;
  switch (kind) {
    case 0:
      return malloc(size);
    case 1:
      return calloc(3, size / 3 + 1);
    case 2:
      return realloc(old, size);
    case 3:
      return aligned_alloc(64, (size + 63) / 64 * 64);
    case 4:
      return memalign(256, size);
    default:
      return posix_memalign(&block, 128, size) == 0 ? block : NULL;
  }
}

int main(void) {
  static void* slots[SLOTS];
  uint32_t random = 1;
  uintptr_t last = 0;
  setvbuf(stdout, NULL, _IOFBF, 4096);
  for (int i = 0; i < STEPS; i++) {
    random = random * 1664525u + 1013904223u;
    unsigned slot = (random >> 8) % SLOTS, kind = (random >> 16) % 6;
    size_t size = 1 + (random >> 12) % 3000;
    if (kind != 2) free(slots[slot]);
    slots[slot] = make(kind, size, kind == 2 ? slots[slot] : NULL);
    if (slots[slot] == NULL) return 1;
    uintptr_t here = (uintptr_t)slots[slot];
    if (last != 0) printf("%u %zu %td\n", kind, size, (ptrdiff_t)(here - last));
    last = here;
  }
  for (int i = 0; i < SLOTS; i++) free(slots[i]);
  return 0;
}
