// SPDX-License-Identifier: Apache-2.0
// System calls from code that the kernel does not hand back to us: everything that traps lies in
// one section, whose bounds the kernel knows.
#ifndef STALLSCOPE_PAGES_SYSTEM_H
#define STALLSCOPE_PAGES_SYSTEM_H

#include <stdint.h>

#define OWN_CALLS __attribute__((section("own_calls"), noinline))

// The kernel's answer: negative errors, no errno.
OWN_CALLS long own_call(long number, long a, long b, long c, long d, long e, long f);
// Where a signal handler of ours returns to.
extern void own_restorer(void);
// A call as the registers have it; then back to the address on top of the stack, which is gone then
// with OWN_STEP bytes below it.
#define OWN_STEP 128
extern void own_pass(void);
// The same back to where a variable says. A C library makes each of these calls at one place, so
// that it hardly matters that all threads share the variables.
extern void own_clone(void), own_clone3(void), own_vfork(void);
extern uint64_t own_clone_return, own_clone3_return, own_vfork_return;
extern char __start_own_calls[] __attribute__((visibility("hidden")));
extern char __stop_own_calls[] __attribute__((visibility("hidden")));

#define CALL1(n, a) own_call(n, (long)(a), 0, 0, 0, 0, 0)
#define CALL2(n, a, b) own_call(n, (long)(a), (long)(b), 0, 0, 0, 0)
#define CALL3(n, a, b, c) own_call(n, (long)(a), (long)(b), (long)(c), 0, 0, 0)
#define CALL6(n, a, b, c, d, e, f) \
  own_call(n, (long)(a), (long)(b), (long)(c), (long)(d), (long)(e), (long)(f))

static inline uint64_t ticks(void) { return __builtin_ia32_rdtsc(); }

#endif
