// SPDX-License-Identifier: Apache-2.0
// Structs of every shape that C has, for tests of layouts.
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

struct point {
  float x, y, z;
};

typedef struct {
  int width, height;
} extent;

struct mixed {
  char tag;
  struct point pos;
  uint64_t payload[7];
  struct mixed* next;
  union {
    int number;
    double real;
    char text[12];
  } as;
  union {
    uint32_t word;
    struct {
      uint16_t low, high;
    };
  };
  extent extents[3][2];
  int (*call)(int);
};

struct flags {
  unsigned first : 3;
  unsigned second : 5;
  unsigned : 4;
  unsigned third : 9;
  uint64_t wide : 40;
  signed char tail;
  unsigned last : 1;
};

struct __attribute__((packed)) packed {
  char tag;
  uint32_t value;
  uint16_t rest;
};

struct buffer {
  size_t used;
  struct point points[];
};

union number {
  uint8_t bytes[8];
  uint64_t word;
  struct {
    uint32_t low, high;
  } half;
};

typedef enum { RED, GREEN } colour;
struct enums {
  colour one;
  volatile const colour two;
  _Bool yes;
};

struct empty {};
struct incomplete;
struct holder {
  struct empty nothing;
  struct incomplete* hidden;
  long double wide;
};

struct mixed mixed[4];
struct flags flags;
struct packed packed;
struct buffer* buffer;
union number number;
struct enums enums;
struct holder holder;

int main(void) {
  printf("%zu %zu %zu %zu\n", sizeof mixed[0], sizeof flags, sizeof packed, sizeof number);
  return buffer != NULL || enums.yes || holder.hidden != NULL;
}
