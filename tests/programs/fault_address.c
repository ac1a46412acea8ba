// SPDX-License-Identifier: Apache-2.0
// A handler of SIGSEGV that knows the faulting instruction by its address and goes on behind it, as
// run-time systems do for null checks. The code has run before the handler was installed, so that
// whatever was prepared for it without exact addresses has to be made again.
#define _GNU_SOURCE  // REG_RIP
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <ucontext.h>

extern const char load_here[], load_done[];
static int exact, other;

__attribute__((noinline)) static uint64_t load(const uint64_t* address) {
  uint64_t before = 1, value = 2;
  __asm__ volatile(
      "mov %%rsp, %%rcx\n"
      "mov -8(%%rsp), %0\n"
      ".globl load_here\n"
      "load_here: mov (%2), %1\n"
      ".globl load_done\n"
      "load_done: nop\n"
      : "=&r"(before), "+&r"(value)
      : "r"(address)
      : "rcx", "memory");
  return value;
}

static void skip(int signal, siginfo_t* info, void* context) {
  (void)signal, (void)info;
  greg_t* registers = ((ucontext_t*)context)->uc_mcontext.gregs;
  if ((const char*)registers[REG_RIP] == load_here)
    exact++;
  else
    other++;
  registers[REG_RIP] = (greg_t)load_done;
}

int main(void) {
  uint64_t word = 40;
  uint64_t sum = load(&word);
  struct sigaction action;
  memset(&action, 0, sizeof action);
  action.sa_sigaction = skip;
  action.sa_flags = SA_SIGINFO;
  sigaction(SIGSEGV, &action, NULL);
  for (int i = 0; i < 3; i++) load(NULL);
  sum += load(&word);
  printf("exact=%d other=%d sum=%llu\n", exact, other, (unsigned long long)sum);
  return 0;
}
