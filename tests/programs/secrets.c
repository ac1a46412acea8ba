// SPDX-License-Identifier: Apache-2.0
// Reads a secret and keeps it beside what anybody may know: in one word with it, in a vector with
// it, in variables and heap blocks of its own.
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define NOINLINE __attribute__((noinline))

struct pair {
  unsigned open, hidden;
};
struct pair pair;
struct {
  long open, hidden;
} both;
unsigned long secret;
long counter;
long cells[5];
struct {
  int key;
  short marks[3];
} rows[4];
int grid[2][3];

NOINLINE static unsigned long* make_secret(unsigned long value) {
  volatile unsigned long* made = malloc(64);
  for (int i = 0; i < 8; i++) made[i] = value;
  return (unsigned long*)made;
}

NOINLINE static long* make_open(int count) {
  volatile long* made = malloc(count * sizeof *made);
  for (int i = 0; i < count; i++) made[i] = 1000 + i;
  return (long*)made;
}

NOINLINE static void work(void) {
  for (int i = 0; i < 10; i++) {
    *(volatile long*)&counter += i;
    *(volatile long*)&cells[i % 5] = i;
    *(volatile short*)&rows[i % 4].marks[i % 3] = (short)i;
    *(volatile int*)&grid[i % 2][i % 3] = i;
    *(volatile unsigned long*)&pair = (secret << 32) + 7 + i;
  }
  long from[2] = {11, (long)secret};
  memcpy(&both, from, sizeof both);
}

int main(void) {
  if (read(0, &secret, sizeof secret) != sizeof secret) return 1;
  unsigned long* hidden = make_secret(secret);
  long* open = make_open(6);
  work();
  free(hidden);
  free(open);
  return both.open == 11 ? 0 : 2;
}
