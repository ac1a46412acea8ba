// SPDX-License-Identifier: Apache-2.0
// A table that is jumped about in, on more pages than a TLB knows; after: on huge pages.
#include <sys/mman.h>

#include "pair.h"

enum { HUGE_PAGE = 2 << 20, BYTES = 12 << 20, LINES = BYTES / 64, JUMPS = 150000 };

struct line {
  uint64_t next, unused[7];
};

static struct line* make_table(int after) {
  if (!after) return malloc(BYTES);
  struct line* table = aligned_alloc(HUGE_PAGE, BYTES);
  madvise(table, BYTES, MADV_HUGEPAGE);
  return table;
}

NOINLINE static uint64_t jump(const struct line* table) {
  uint64_t at = 0;
  for (int i = 0; i < JUMPS; i++) at = table[at].next;
  return at;
}

int main(int argc, char** argv) {
  struct line* table = make_table(is_after(argc, argv));
  // One round through all lines: a step that has no factor in common with their number.
  for (uint64_t i = 0; i < LINES; i++) table[i].next = (i + 77773) % LINES;
  printf("%llu\n", (unsigned long long)jump(table));
}
