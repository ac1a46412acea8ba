// SPDX-License-Identifier: Apache-2.0
// The same as soa_heap, with variables instead of heap blocks.
#include "pair.h"

enum { PARTICLES = 16000, PASSES = 6 };

struct particle {
  double x, y, z, mass;
};

static struct particle particles[PARTICLES];
static __attribute__((aligned(64))) double columns[4 * PARTICLES];

NOINLINE static struct particle* make_particles(void) {
  struct particle* all = particles;
  for (uint64_t i = 0; i < PARTICLES; i++) {
    all[i].x = all[i].y = (double)i;
    all[i].z = all[i].mass = 1.0;
  }
  return all;
}

NOINLINE static double sum_x(const struct particle* all) {
  double sum = 0;
  for (uint64_t i = 0; i < PARTICLES; i++) sum += all[i].x;
  return sum;
}
NOINLINE static double sum_y(const struct particle* all) {
  double sum = 0;
  for (uint64_t i = 0; i < PARTICLES; i++) sum += all[i].y;
  return sum;
}
NOINLINE static double sum_mass(const struct particle* all) {
  double sum = 0;
  for (uint64_t i = 0; i < PARTICLES; i++) sum += all[i].mass;
  return sum;
}
NOINLINE static double sum_column(const double* column) {
  double sum = 0;
  for (uint64_t i = 0; i < PARTICLES; i++) sum += column[i];
  return sum;
}

NOINLINE static double* make_columns(void) {
  double* all = columns;
  for (uint64_t i = 0; i < PARTICLES; i++) {
    all[i] = all[PARTICLES + i] = (double)i;
    all[2 * PARTICLES + i] = all[3 * PARTICLES + i] = 1.0;
  }
  return all;
}

int main(int argc, char** argv) {
  double sum = 0;
  if (is_after(argc, argv)) {
    double* all = make_columns();
    for (int i = 0; i < PASSES; i++)
      sum += sum_column(all) + sum_column(all + PARTICLES) + sum_column(all + 3 * PARTICLES);
  } else {
    struct particle* all = make_particles();
    for (int i = 0; i < PASSES; i++) sum += sum_x(all) + sum_y(all) + sum_mass(all);
  }
  printf("%g\n", sum);
}
