// SPDX-License-Identifier: Apache-2.0
// Records of a large table, used in the order that an index gives. What is done next depends on the
// record, so that a core cannot go on before it is there; after: it is prefetched some turns
// earlier.
#include "pair.h"

enum { RECORDS = 1 << 20, USED = 12000, AHEAD = 64 };

NOINLINE static uint64_t* make_table(void) { return must(calloc(RECORDS, sizeof(uint64_t))); }

NOINLINE static uint32_t* make_index(void) {
  uint32_t* index = must(malloc(USED * sizeof *index));
  uint64_t state = 1;
  for (uint32_t i = 0; i < USED; i++) index[i] = next_random(&state) % RECORDS;
  return index;
}

NOINLINE static uint64_t use(const uint64_t* table, const uint32_t* index) {
  uint64_t sum = 1;
  for (uint32_t i = 0; i < USED; i++) {
    sum ^= table[index[i]] + index[i];
    if (sum & 1) sum = scatter(sum);
  }
  return sum;
}
NOINLINE static uint64_t use_ahead(const uint64_t* table, const uint32_t* index) {
  uint64_t sum = 1;
  for (uint32_t i = 0; i < USED; i++) {
    if (i + AHEAD < USED) __builtin_prefetch(&table[index[i + AHEAD]]);
    sum ^= table[index[i]] + index[i];
    if (sum & 1) sum = scatter(sum);
  }
  return sum;
}

int main(int argc, char** argv) {
  const int after = is_after(argc, argv);
  const uint64_t* table = make_table();
  const uint32_t* index = make_index();
  const uint64_t sum = after ? use_ahead(table, index) : use(table, index);
  printf("%llu\n", (unsigned long long)sum);
}
