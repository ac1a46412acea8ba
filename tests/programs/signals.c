// SPDX-License-Identifier: Apache-2.0
// Signal handlers: a timer that interrupts work, a signal to oneself, a handler interrupted by
// another one, and a handler on a stack of its own. Prints only what is the same in every run.
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

#define OWN_STACK 65536

static volatile sig_atomic_t ticks, users, depth, deepest, on_own_stack;
static char* own_stack;
static volatile unsigned cells[1024];

static void tick(int signal) {
  (void)signal;
  ticks++;
}

static void user_one(int signal) {
  (void)signal;
  users++;
  if (++depth > deepest) deepest = depth;
  raise(SIGUSR2);
  depth--;
}

static void user_two(int signal) {
  (void)signal;
  users++;
  if (++depth > deepest) deepest = depth;
  depth--;
}

static void stacked(int signal) {
  (void)signal;
  char here;
  on_own_stack = &here >= own_stack && &here < own_stack + OWN_STACK;
}

static void handle(int signal, void (*handler)(int), int flags) {
  struct sigaction action;
  memset(&action, 0, sizeof action);
  action.sa_handler = handler;
  action.sa_flags = flags;
  if (sigaction(signal, &action, NULL) != 0) exit(1);
}

static void wait_for_ticks(int wanted) {
  struct itimerval every = {{0, 2000}, {0, 2000}}, never = {{0, 0}, {0, 0}};
  handle(SIGALRM, tick, SA_RESTART);
  setitimer(ITIMER_REAL, &every, NULL);
  for (unsigned i = 0; ticks < wanted; i++) cells[i % 1024] += i;
  setitimer(ITIMER_REAL, &never, NULL);
}

int main(void) {
  own_stack = malloc(OWN_STACK);
  stack_t stack = {.ss_sp = own_stack, .ss_size = OWN_STACK};
  if (own_stack == NULL || sigaltstack(&stack, NULL) != 0) return 1;
  handle(SIGUSR1, user_one, 0);
  handle(SIGUSR2, user_two, 0);
  handle(SIGURG, stacked, SA_ONSTACK);
  for (int i = 0; i < 10; i++) kill(getpid(), SIGUSR1);
  raise(SIGURG);
  wait_for_ticks(5);
  printf("users=%d deepest=%d own_stack=%d ticks=%s\n", (int)users, (int)deepest, (int)on_own_stack,
         ticks >= 5 ? "enough" : "too few");
  return 0;
}
