// SPDX-License-Identifier: Apache-2.0
// What every workload needs: numbers that look random and are the same on every machine, and sizes
// from the command line. Functions are inlined, so that they add no frames to allocation paths.
#ifndef STALLSCOPE_WORKLOADS_RANDOM_H
#define STALLSCOPE_WORKLOADS_RANDOM_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

// A function that stays a function under its own name: neither inlined nor specialised. What is
// summed up goes in and out, so that no compiler finds two calls to be the same.
#ifdef __clang__
#define NOINLINE __attribute__((noinline))
#else
#define NOINLINE __attribute__((noipa))
#endif

// Maps distinct numbers to distinct, scattered numbers: an odd multiplication and a folding shift
// can each be undone.
static inline uint64_t scatter(uint64_t number) {
  number = (number + 1) * 0x9e3779b97f4a7c15u;
  number = (number ^ (number >> 31)) * 0xd6e8feb86659fd93u;
  return number ^ (number >> 32);
}

static inline uint64_t next_random(uint64_t* state) { return scatter(++*state); }

// The index-th argument as a number of at least 1; a default when it is left out.
static inline uint64_t argument(int argc, char** argv, int index, uint64_t otherwise) {
  if (index >= argc) return otherwise;
  char* end;
  uint64_t value = strtoull(argv[index], &end, 10);
  if (*end != '\0' || value == 0) {
    fprintf(stderr, "%s: argument %d must be a number from 1, not '%s'\n", argv[0], index,
            argv[index]);
    exit(2);
  }
  return value;
}

// Written so that no caller can end in a jump to malloc, which would hide it from the call path.
static inline void* must(void* memory) {
  if (memory == NULL) {
    fputs("out of memory\n", stderr);
    exit(3);
  }
  return memory;
}

#endif
