// SPDX-License-Identifier: Apache-2.0
// Makes a table of heap blocks, then forks: the child waits for them, in random order.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

enum { BLOCKS = 200000 };
static uint64_t* table[BLOCKS];

__attribute__((noinline)) static void make_table(void) {
  for (int i = 0; i < BLOCKS; i++) {
    table[i] = malloc(200);
    if (table[i] == NULL) exit(3);
    table[i][0] = (uint64_t)i * 7919 % BLOCKS;
  }
}

__attribute__((noinline)) static uint64_t wander(uint64_t at, uint64_t steps) {
  for (uint64_t i = 0; i < steps; i++) {
    const uint64_t* block = table[at];
    at = (at * 31 + block[0] + i) % BLOCKS;
  }
  return at;
}

int main(void) {
  make_table();
  pid_t child = fork();
  if (child == 0) _exit(wander(1, 6000000) == BLOCKS);
  int status = 0;
  if (child < 0 || waitpid(child, &status, 0) != child) return 1;
  printf("child=%d\n", status);
  return 0;
}
