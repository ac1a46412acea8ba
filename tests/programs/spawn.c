// SPDX-License-Identifier: Apache-2.0
// posix_spawn of /bin/echo, twice, each waited for. Three processes.
#include <spawn.h>
#include <stdio.h>
#include <sys/wait.h>

extern char** environ;

int main(void) {
  int failures = 0;
  for (int i = 0; i < 2; i++) {
    char* const arguments[] = {"echo", i == 0 ? "one" : "two", NULL};
    pid_t pid;
    int status = -1;
    if (posix_spawn(&pid, "/bin/echo", NULL, NULL, arguments, environ) != 0) return 1;
    waitpid(pid, &status, 0);
    failures += status != 0;
  }
  printf("failures=%d\n", failures);
  return failures;
}
