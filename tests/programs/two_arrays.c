// SPDX-License-Identifier: Apache-2.0
// A process and its child, each with an array of its own that the same function walks through once:
// one access to every 64 bytes.
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PARENT_LINES = 80000, CHILD_LINES = 20000, LINE = 64 };

static volatile char of_parent[PARENT_LINES * LINE];
static volatile char of_child[CHILD_LINES * LINE];

static int walk(volatile char* array, int lines) {
  int sum = 0;
  for (int i = 0; i < lines; i++) sum += ++array[(long)i * LINE];
  return sum;
}

int main(void) {
  pid_t pid = fork();
  if (pid < 0) return 9;
  if (pid == 0) _exit(walk(of_child, CHILD_LINES) == CHILD_LINES ? 0 : 1);
  int status = 1;
  waitpid(pid, &status, 0);
  printf("sum=%d child=%d\n", walk(of_parent, PARENT_LINES), status);
  return 0;
}
