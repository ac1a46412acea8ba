// SPDX-License-Identifier: Apache-2.0
// Works until a signal ends it; prints its process id first, so that a test knows whom to signal.
// With an argument, SIGINT and SIGTERM are caught and the program exits with that status. An alarm
// ends it after a minute, should the test forget.
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static volatile sig_atomic_t stopped;
static volatile unsigned cells[4096];

static void stop(int signal) { stopped = signal; }

int main(int argc, char** argv) {
  if (argc > 1) {
    signal(SIGINT, stop);
    signal(SIGTERM, stop);
  }
  alarm(60);
  printf("%d\n", (int)getpid());
  fflush(stdout);
  for (unsigned i = 0; !stopped; i++) cells[i % 4096] += i;
  printf("stopped by signal %d\n", (int)stopped);
  return atoi(argv[1]);
}
