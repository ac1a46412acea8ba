// SPDX-License-Identifier: Apache-2.0
// Functions, inlined calls and every kind of variable in C.
#include <stdint.h>
#include <stdio.h>

struct node {
  struct node* next;
  int value;
};
typedef double matrix[4][8];
enum colour { RED, GREEN };

struct node* table[128];
double grid[64][64];
matrix small;
static struct node pool[10];
const char* const names[3] = {"a", "b", "c"};
int (*callbacks[5])(int, char*);
enum colour favourite = GREEN;
union {
  int whole;
  char parts[4];
} mixed;
volatile uint64_t ticks;
long (*pointer_to_row)[7];
__thread int per_thread = 3;

static inline __attribute__((always_inline)) int innermost(int x) { return x * 3 + (int)ticks; }

static inline __attribute__((always_inline)) int middle(int x) {
  ticks++;
  return innermost(x + 1);
}

__attribute__((noinline)) int outer(int x) {
  static int counter = 5;
  static unsigned long history[16];
  counter += x;
  history[counter & 15]++;
  ticks += 2;
  return middle(counter);
}

static __attribute__((noinline)) int hidden(int x) {
  {
    static short counter = 7;
    counter += (short)x;
    return counter;
  }
}

int main(int count, char** words) {
  pool[0].value = count;
  table[1] = &pool[0];
  grid[1][2] = small[1][2] + mixed.whole + favourite + per_thread;
  printf("%d %d %s %p\n", outer(count), hidden(count), names[count % 3], (void*)pointer_to_row);
  return callbacks[0] != 0;
}
