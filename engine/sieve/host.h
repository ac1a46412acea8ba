/* SPDX-License-Identifier: Apache-2.0 */
/* What the processor can do. Asked here because the capture tool has no library. */
#ifndef STALLSCOPE_SIEVE_HOST_H
#define STALLSCOPE_SIEVE_HOST_H

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>

#define SS_AVX512 __attribute__((target("avx512f,avx512vl,avx512bw,popcnt"), unused))

static inline int ss_ask_for_avx512(void) {
  unsigned a, b, c, d, low, high;
  if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & bit_OSXSAVE) || !(c & bit_POPCNT)) return 0;
  __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  if ((low & 0xe6) != 0xe6 || !__get_cpuid_count(7, 0, &a, &b, &c, &d)) return 0;
  return (b & bit_AVX512F) && (b & bit_AVX512VL) && (b & bit_AVX512BW);
}

/* Whether processor and kernel have these. Asked once: under a hypervisor that takes long. */
static inline int ss_has_avx512(void) {
  static int answer = 0; /* 1: no, 2: yes */
  int known = __atomic_load_n(&answer, __ATOMIC_RELAXED);
  if (!known) {
    known = ss_ask_for_avx512() ? 2 : 1;
    __atomic_store_n(&answer, known, __ATOMIC_RELAXED);
  }
  return known == 2;
}
#endif

#endif
