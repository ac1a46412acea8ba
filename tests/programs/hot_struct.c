// SPDX-License-Identifier: Apache-2.0
// A struct that a loop reads again and again; with GROWN it has one field more, in the middle.
#include <stdio.h>
#include <stdlib.h>
struct item {
  long key;
#ifdef GROWN
  long extra;
#endif
  long value;
  struct item* next;
};
static struct item* build(long n) {
  struct item* items = malloc(n * sizeof *items);
  for (long i = 0; i < n; i++) {
    items[i].key = i;
    items[i].value = 2 * i;
    items[i].next = &items[(i + 1) % n];
#ifdef GROWN
    items[i].extra = 1;
#endif
  }
  return items;
}
static long sum(struct item* items, long n) {
  long total = 0;
  for (int pass = 0; pass < 10; pass++)
    for (long i = 0; i < n; i++) total += items[i].key + items[i].value;
  return total;
}
int main(void) {
  struct item* items = build(20000);
  printf("%ld\n", sum(items, 20000));
  free(items);
  return 0;
}
