// SPDX-License-Identifier: Apache-2.0
// vfork, then exec in the child, which borrows the parent's memory until then. The second child's
// exec fails, and it must leave without harm to the parent. Three processes in all.
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

static int run(const char* path) {
  pid_t pid = vfork();
  if (pid == 0) {
    execl(path, path, "hello from vfork", (char*)NULL);
    _exit(42);
  }
  int status = -1;
  waitpid(pid, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

int main(void) {
  int first = run("/bin/echo");
  int second = run("/nowhere/at/all");
  printf("first=%d second=%d\n", first, second);
  return 0;
}
