// SPDX-License-Identifier: Apache-2.0
// longjmp over many frames, and siglongjmp out of handlers: of a signal to oneself and of a fault
// that is repaired by leaving.
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

static jmp_buf out;
static volatile int jumping = 1;
static sigjmp_buf out_of_handler;
static volatile int* volatile nowhere;

__attribute__((noinline)) static int descend(int frames) {
  volatile char space[64];
  space[0] = (char)frames;
  if (frames == 0) {
    if (jumping) longjmp(out, 1);
    return 0;
  }
  return descend(frames - 1) + space[0];
}

static void leave(int signal) { siglongjmp(out_of_handler, signal); }

static int jumps(void) {
  volatile int count = 0;
  for (volatile int i = 0; i < 1000; i++)
    if (setjmp(out) == 0)
      descend(50);
    else
      count++;
  return count;
}

static int faults(int signal) {
  volatile int count = 0;
  for (volatile int i = 0; i < 10; i++) {
    if (sigsetjmp(out_of_handler, 1) != 0) {
      count++;
    } else if (signal == SIGSEGV) {
      *nowhere = 1;
    } else {
      raise(signal);
    }
  }
  return count;
}

int main(void) {
  struct sigaction action;
  memset(&action, 0, sizeof action);
  action.sa_handler = leave;
  sigaction(SIGSEGV, &action, NULL);
  sigaction(SIGUSR1, &action, NULL);
  printf("jumps=%d\n", jumps());
  printf("faults=%d\n", faults(SIGSEGV));
  printf("signals=%d\n", faults(SIGUSR1));
  return 0;
}
