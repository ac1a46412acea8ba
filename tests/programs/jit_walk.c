// SPDX-License-Identifier: Apache-2.0
// Waits for memory in code that it made itself: a loop that follows a chain, with its name where
// profilers look for it. The name comes after the first rounds, as compilers write theirs late.
#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { LINKS = 1 << 22 };
void* chain[LINKS];

// next: mov rdi, [rdi]; dec rsi; jnz next; mov rax, rdi; ret
static const unsigned char walk_code[] = {0x48, 0x8b, 0x3f, 0x48, 0xff, 0xce,
                                          0x75, 0xf8, 0x48, 0x89, 0xf8, 0xc3};

static void leave_name(const void* code) {
  char path[64];
  snprintf(path, sizeof path, "/tmp/perf-%d.map", (int)getpid());
  FILE* map = fopen(path, "w");
  if (map == NULL) return;
  fprintf(map, "%lx %zx js:walk\n", (unsigned long)code, sizeof walk_code);
  fclose(map);
}

// One cycle through all links, in no order.
static void make_chain(void) {
  uint64_t state = 88172645463325252u;
  static uint32_t order[LINKS];
  for (uint32_t i = 0; i < LINKS; i++) order[i] = i;
  for (uint32_t i = LINKS - 1; i > 0; i--) {
    state ^= state << 13, state ^= state >> 7, state ^= state << 17;
    uint32_t other = (uint32_t)(state % i), kept = order[i];
    order[i] = order[other];
    order[other] = kept;
  }
  for (uint32_t i = 0; i < LINKS; i++) chain[order[i]] = &chain[order[(i + 1) % LINKS]];
}

int main(int argc, char** argv) {
  long rounds = argc > 1 ? atol(argv[1]) : 1;
  unsigned char* code =
      mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (code == MAP_FAILED) return 1;
  memcpy(code + 64, walk_code, sizeof walk_code);
  if (mprotect(code, 4096, PROT_READ | PROT_EXEC) != 0) return 1;
  make_chain();
  void** (*walk)(void**, long);
  const unsigned char* entry = code + 64;
  memcpy(&walk, &entry, sizeof walk);
  void** at = chain;
  for (long i = 0; i < rounds; i++) {
    at = walk(at, LINKS);
    if (i == 0) leave_name(entry);
  }
  printf("back=%d\n", at == chain);
  return 0;
}
