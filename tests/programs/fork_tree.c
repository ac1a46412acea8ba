// SPDX-License-Identifier: Apache-2.0
// A tree of processes by fork: every process above the last level has two children, works a little,
// and adds up what they return. fork_tree DEPTH makes 2^(DEPTH+1) - 1 processes; only the root
// prints.
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static int work(int depth) {
  int* numbers = malloc(1000 * sizeof *numbers);
  if (numbers == NULL) _exit(99);
  int sum = 0;
  for (int i = 0; i < 1000; i++) numbers[i] = i % (depth + 2);
  for (int i = 0; i < 1000; i++) sum += numbers[i];
  free(numbers);
  return sum > 0 ? 1 : 0;
}

// The number of processes from here down. Children hand theirs over as the exit status.
static int grow(int depth) {
  int processes = work(depth);
  for (int child = 0; depth > 0 && child < 2; child++) {
    pid_t pid = fork();
    if (pid < 0) exit(98);
    if (pid == 0) _exit(grow(depth - 1));
    int status;
    if (waitpid(pid, &status, 0) != pid || !WIFEXITED(status)) exit(97);
    processes += WEXITSTATUS(status);
  }
  return processes;
}

int main(int argc, char** argv) {
  int depth = argc > 1 ? atoi(argv[1]) : 2;
  if (depth < 0 || depth > 5) return 2;
  printf("processes=%d\n", grow(depth));
  return 0;
}
