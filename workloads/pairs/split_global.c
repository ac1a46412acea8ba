// SPDX-License-Identifier: Apache-2.0
// The same as split_array, with variables instead of heap blocks.
#include "pair.h"

enum { RECORDS = 12000, PASSES = 12 };

struct account {
  uint64_t number;
  uint64_t address[8];
  uint64_t balance;
  uint64_t history[6];
};
struct hot {
  uint64_t number, balance;
};
struct cold {
  uint64_t address[8], history[6];
};

static struct account accounts[RECORDS];
static __attribute__((aligned(64))) struct hot hots[RECORDS];
static struct cold colds[RECORDS];

NOINLINE static uint64_t scan(const struct account* all) {
  uint64_t sum = 0;
  for (uint64_t i = 0; i < RECORDS; i++) sum += all[i].number ^ all[i].balance;
  return sum;
}

NOINLINE static uint64_t scan_hot(const struct hot* all) {
  uint64_t sum = 0;
  for (uint64_t i = 0; i < RECORDS; i++) sum += all[i].number ^ all[i].balance;
  return sum;
}

NOINLINE static struct account* make_accounts(void) {
  struct account* all = accounts;
  for (uint64_t i = 0; i < RECORDS; i++) {
    all[i].number = i;
    all[i].balance = 7 * i;
    all[i].history[0] = all[i].address[0] = i;
  }
  return all;
}

NOINLINE static struct hot* make_split(struct cold** cold) {
  struct hot* hot = hots;
  *cold = colds;
  for (uint64_t i = 0; i < RECORDS; i++) {
    hot[i].number = i;
    hot[i].balance = 7 * i;
    (*cold)[i].history[0] = (*cold)[i].address[0] = i;
  }
  return hot;
}

int main(int argc, char** argv) {
  uint64_t sum = 0;
  if (is_after(argc, argv)) {
    struct cold* cold;
    struct hot* hot = make_split(&cold);
    for (int i = 0; i < PASSES; i++) sum += scan_hot(hot);
  } else {
    struct account* all = make_accounts();
    for (int i = 0; i < PASSES; i++) sum += scan(all);
  }
  printf("%llu\n", (unsigned long long)sum);
}
