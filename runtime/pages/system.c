// SPDX-License-Identifier: Apache-2.0
#include "system.h"

OWN_CALLS long own_call(long number, long a, long b, long c, long d, long e, long f) {
  register long r10 __asm__("r10") = d;
  register long r8 __asm__("r8") = e;
  register long r9 __asm__("r9") = f;
  long answer;
  __asm__ volatile("syscall"
                   : "=a"(answer)
                   : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
                   : "rcx", "r11", "memory");
  return answer;
}

#define HIDDEN __attribute__((visibility("hidden")))
HIDDEN uint64_t own_clone_return, own_clone3_return, own_vfork_return;

#define NAMED(name) ".hidden " name "\n.globl " name "\n" name ":\n"
#define BY_VARIABLE(name) NAMED(name) "  syscall\n  jmp *" name "_return(%rip)\n"

__asm__(
    ".pushsection own_calls, \"ax\", @progbits\n"
    NAMED("own_restorer")
    "  movq $15, %rax\n"  // rt_sigreturn; by these very bytes frames are followed through it
    "  syscall\n"
    NAMED("own_pass")
    "  syscall\n"
    "  ret $128\n"  // OWN_STEP
    BY_VARIABLE("own_clone")
    BY_VARIABLE("own_clone3")
    BY_VARIABLE("own_vfork")
    ".popsection\n");
