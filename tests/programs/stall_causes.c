// SPDX-License-Identifier: Apache-2.0
// Programs that wait for one thing each: stall_causes WHAT ROUNDS
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint64_t state = 88172645463325252ULL;

static uint64_t next_random(void) {
  state ^= state << 13;
  state ^= state >> 7;
  state ^= state << 17;
  return state;
}

// Each quotient is the next dividend.
static uint64_t divides(long rounds) {
  uint64_t x = ~0ULL, y = (uint64_t)rounds | 1;
  for (long i = 0; i < rounds; ++i) x = (x | 1ULL << 63) / y;
  return x;
}

struct node {
  struct node* next;
  char rest[120];
};

static uint64_t walk(long rounds) {
  const size_t count = 1 << 16;
  struct node* nodes = malloc(count * sizeof *nodes);
  for (size_t i = 0; i < count; ++i) nodes[i].next = &nodes[i];
  for (size_t i = count - 1; i > 0; --i) {  // one cycle through all
    const size_t other = next_random() % i;
    struct node* next = nodes[i].next;
    nodes[i].next = nodes[other].next;
    nodes[other].next = next;
  }
  struct node* at = nodes;
  for (long i = 0; i < rounds; ++i) at = at->next;
  const uint64_t found = (uint64_t)(at - nodes);
  free(nodes);
  return found;
}

// One line a page, at another offset each, so that all of them stay in the cache; each address
// depends on what was read before.
static uint64_t pages(long rounds) {
  const size_t count = 200, page = 4096;
  char* memory = aligned_alloc(page, (count + 1) * page);
  for (size_t i = 0; i < count; ++i) {
    const size_t next = (i + 1) % count;
    *(size_t*)(memory + i * page + i % 64 * 64) = next * page + next % 64 * 64;
  }
  size_t at = 0;
  for (long i = 0; i < rounds; ++i) at = *(size_t*)(memory + at);
  free(memory);
  return at;
}

// A switch of 64 ranges over random bits, as a tree of comparisons: a table would have to be read.
#define CASE(n)                                                         \
  case n * 4 ... n * 4 + 3:                                             \
    __asm__ volatile("xor %1, %0" : "+r"(sum) : "i"(n * 77777) : "cc"); \
    break;
#define FOUR(n) CASE(n) CASE((n + 1)) CASE((n + 2)) CASE((n + 3))
#define SIXTEEN(n) FOUR(n) FOUR((n + 4)) FOUR((n + 8)) FOUR((n + 12))

__attribute__((optimize("no-jump-tables"))) static uint64_t switches(long rounds) {
  uint32_t sum = 0;
  for (long i = 0; i < rounds; i += 8) {
    uint64_t bits = next_random();
    for (int part = 0; part < 8; ++part, bits >>= 8) switch (bits & 255) {
        SIXTEEN(0) SIXTEEN(16) SIXTEEN(32) SIXTEEN(48)
      }
  }
  return sum;
}

// A megabyte of code without a branch.
static __attribute__((noinline)) void long_way(void) {
  __asm__ volatile(
      ".rept 27595\n\t"
      "movabs $0x123456789abcdef, %%rax\n\t"
      ".byte 0x66, 0x0f, 0x1f, 0x84, 0, 0, 0, 0, 0\n\t"  // a nop of nine bytes
      "movabs $0x123456789abcdef, %%rsi\n\t"
      ".byte 0x66, 0x0f, 0x1f, 0x84, 0, 0, 0, 0, 0\n\t"
      ".endr"
      :
      :
      : "rax", "rsi");
}
static uint64_t straight(long rounds) {
  for (long i = 0; i < rounds; ++i) long_way();
  return 0;
}

static uint64_t adds(long rounds) {
  for (long i = 0; i < rounds; ++i)
    __asm__ volatile(
        ".rept 40\n\t"
        "add $1, %%rax\n\tadd $1, %%rdx\n\tadd $1, %%rsi\n\tadd $1, %%rdi\n\t"
        "add $1, %%r8\n\tadd $1, %%r9\n\tadd $1, %%r10\n\tadd $1, %%r11\n\t"
        ".endr"
        :
        :
        : "rax", "rdx", "rsi", "rdi", "r8", "r9", "r10", "r11", "cc");
  return 0;
}

// Work for all units: of ten, four integer, three floating point, three loads.
static uint64_t mix(long rounds) {
  static char data[64];
  for (long i = 0; i < rounds; ++i)
    __asm__ volatile(
        ".rept 6\n\t"
        "add $1, %%rax\n\tmov 0(%0), %%rdx\n\taddsd %%xmm1, %%xmm2\n\t"
        "add $1, %%rsi\n\taddsd %%xmm1, %%xmm3\n\tmov 8(%0), %%rdi\n\t"
        "add $1, %%r8\n\taddsd %%xmm1, %%xmm4\n\tmov 16(%0), %%r9\n\t"
        "add $1, %%r10\n\tadd $1, %%r11\n\tmov 0(%0), %%rdx\n\t"
        "addsd %%xmm1, %%xmm5\n\tadd $1, %%rax\n\taddsd %%xmm1, %%xmm6\n\t"
        "mov 8(%0), %%rdi\n\tadd $1, %%rsi\n\taddsd %%xmm1, %%xmm7\n\t"
        "mov 16(%0), %%r9\n\tadd $1, %%r8\n\tadd $1, %%r10\n\t"
        "mov 0(%0), %%rdx\n\taddsd %%xmm1, %%xmm8\n\tadd $1, %%r11\n\t"
        "addsd %%xmm1, %%xmm9\n\tmov 8(%0), %%rdi\n\tadd $1, %%rax\n\t"
        "addsd %%xmm1, %%xmm10\n\tmov 16(%0), %%r9\n\tadd $1, %%rsi\n\t"
        "add $1, %%r8\n\tmov 0(%0), %%rdx\n\taddsd %%xmm1, %%xmm11\n\t"
        "add $1, %%r10\n\taddsd %%xmm1, %%xmm12\n\tmov 8(%0), %%rdi\n\t"
        "add $1, %%r11\n\taddsd %%xmm1, %%xmm13\n\tmov 16(%0), %%r9\n\t"
        "add $1, %%rax\n\t"
        ".endr"
        :
        : "r"(data)
        : "rax", "rdx", "rsi", "rdi", "r8", "r9", "r10", "r11", "cc");
  return 0;
}

int main(int argc, char** argv) {
  const char* what = argc > 1 ? argv[1] : "";
  const long rounds = argc > 2 ? atol(argv[2]) : 1000;
  const struct {
    const char* name;
    uint64_t (*run)(long);
  } programs[] = {{"divides", divides},   {"walk", walk}, {"pages", pages}, {"switches", switches},
                  {"straight", straight}, {"adds", adds}, {"mix", mix}};
  for (size_t i = 0; i < sizeof programs / sizeof *programs; ++i)
    if (strcmp(what, programs[i].name) == 0) {
      printf("%llu\n", (unsigned long long)programs[i].run(rounds));
      return 0;
    }
  return 2;
}
