// SPDX-License-Identifier: Apache-2.0
// Copies strings into blocks that are one byte too short: the end of each goes past its block. A
// table whose counts are incremented, and a buffer that a system call fills.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define NOINLINE __attribute__((noinline))

struct row {
  int key, count;
  double sum;
};
struct row table[100];
long total;
char buffer[64];

NOINLINE static char* copy(const char* text) {
  size_t length = strlen(text);
  char* made = malloc(length);
  for (size_t i = 0; i < length; i++) made[i] = text[i];
  made[length] = 0;  // one past
  return made;
}

NOINLINE static void fill(int times) {
  for (int i = 0; i < times; i++) {
    table[i % 100].count++;
    *(volatile long*)&total += i;
  }
}

int main(int count, char** words) {
  (void)words;
  int ends[2];
  fill(1000);
  char* first = copy("twelve chars");
  char* second = copy("a longer one, of 31 characters.");
  if (pipe(ends) || write(ends[1], "through a pipe", 15) != 15) return 1;
  if (read(ends[0], buffer, sizeof buffer) != 15) return 1;
  printf("%s %s %s %ld %d\n", first, second, buffer, total, table[count % 100].count);
  free(first);
  free(second);
  return 0;
}
