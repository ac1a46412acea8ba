// SPDX-License-Identifier: Apache-2.0
// Heap blocks of several types: particles in an array, cells of a list from a wrapper of malloc, a
// buffer behind a header, rows of numbers, bytes. Of the particles, y and z of the velocities are
// used ten times, and one letter of the names once.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NOINLINE __attribute__((noinline))

struct vector {
  float x, y, z, w;
};

struct particle {
  struct vector position, velocity;
  char name[24];
  struct particle* nearest;
};

typedef struct cell {
  struct cell* next;
  uint32_t value, weight;
} cell;

struct buffer {
  uint64_t used;
  uint64_t words[];
};

NOINLINE static void* take(size_t size) {
  void* block = malloc(size);
  if (block == NULL) abort();
  return block;
}

NOINLINE static struct particle* make_particles(int count) {
  struct particle* all = take((size_t)count * sizeof *all);
  memset(all, 0, (size_t)count * sizeof *all);
  for (int i = 0; i < count; i++) all[i].nearest = &all[(i * 7919) % count];
  return all;
}

NOINLINE static void move(struct particle* particles, int count) {
  for (int i = 0; i < count; i++) {
    particles[i].velocity.y += 1.5f;
    particles[i].velocity.z += 0.5f;
  }
}

NOINLINE static uint64_t names(const struct particle* particles, int count) {
  uint64_t sum = 0;
  for (int i = 0; i < count; i++) sum += (unsigned char)particles[i].nearest->name[3];
  return sum;
}

NOINLINE static cell* push(cell* list, uint32_t value) {
  cell* fresh = (cell*)take(sizeof *fresh);
  fresh->next = list;
  fresh->value = value;
  fresh->weight = value / 2;
  return fresh;
}

NOINLINE static uint64_t weigh(const cell* list) {
  uint64_t sum = 0;
  for (; list != NULL; list = list->next) sum += list->weight;
  return sum;
}

NOINLINE static struct buffer* fill(uint64_t words) {
  struct buffer* buffer = malloc(sizeof *buffer + words * sizeof(uint64_t));
  buffer->used = 0;
  for (uint64_t i = 0; i < words; i++) buffer->words[buffer->used++] = i;
  return buffer;
}

NOINLINE static double sum_rows(double** rows, int count, int length) {
  double sum = 0;
  for (int i = 0; i < count; i++)
    for (int j = 0; j < length; j++) sum += rows[i][j];
  return sum;
}

int main(int argc, char** argv) {
  int count = argc > 1 ? atoi(argv[1]) : 2000;
  struct particle* particles = make_particles(count);
  for (int i = 0; i < 10; i++) move(particles, count);
  uint64_t named = names(particles, count), weight = 0;
  cell* list = NULL;
  for (int i = 0; i < count; i++) list = push(list, (uint32_t)i);
  for (int i = 0; i < 4; i++) weight += weigh(list);
  struct buffer* buffer = fill((uint64_t)count * 4);
  double** rows = malloc(64 * sizeof *rows);
  for (int i = 0; i < 64; i++) {
    rows[i] = calloc((size_t)count, sizeof *rows[i]);
    for (int j = 0; j < count; j++) rows[i][j] = i + j;
  }
  char* bytes = malloc((size_t)count * 64);
  for (int i = 0; i < count * 64; i++) bytes[i] = (char)i;
  double sum = sum_rows(rows, 64, count) + bytes[count];
  printf("named=%llu weight=%llu used=%llu sum=%.0f\n", (unsigned long long)named,
         (unsigned long long)weight, (unsigned long long)buffer->used, sum);
  return 0;
}
