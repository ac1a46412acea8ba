// SPDX-License-Identifier: Apache-2.0
// Allocations whose stack pointers agree while their paths differ: further out than the caller, in
// functions that move their stack, and in recursion that goes left or right. Sizes say who asked.
#include <alloca.h>
#include <stdio.h>
#include <stdlib.h>

#define NOINLINE __attribute__((noinline))
#define ROUNDS 60

static void* volatile kept;
static volatile char sink;
static unsigned asked;

NOINLINE static void ask(size_t size) {
  kept = malloc(size);
  free(kept);
  asked++;
}

NOINLINE static void inner(size_t size) {
  ask(size);
  sink = 1;
}

// The same frames, called from two places.
NOINLINE static void first(void) {
  inner(101);
  sink = 2;
}
NOINLINE static void second(void) {
  inner(102);
  sink = 3;
}

NOINLINE static void moved(unsigned bytes) {
  volatile char* room = alloca(bytes);
  room[0] = 1;
  ask(103);
  sink = room[0];
}

NOINLINE static void left(unsigned depth, unsigned turns);
NOINLINE static void right(unsigned depth, unsigned turns);
NOINLINE static void turn(unsigned depth, unsigned turns) {
  if (depth == 0)
    ask(200 + (turns & 7));
  else if (turns >> (depth - 1) & 1)
    right(depth, turns);
  else
    left(depth, turns);
  sink = 4;
}
NOINLINE static void left(unsigned depth, unsigned turns) {
  turn(depth - 1, turns);
  sink = 5;
}
NOINLINE static void right(unsigned depth, unsigned turns) {
  turn(depth - 1, turns);
  sink = 6;
}

int main(void) {
  for (unsigned i = 0; i < ROUNDS; i++) {
    first();
    second();
    if (i % 3 == 0) first();
    moved(16 * (i % 4) + 16);
    turn(3, i % 8);
  }
  printf("asked=%u\n", asked);
  return 0;
}
