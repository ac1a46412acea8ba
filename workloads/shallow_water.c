// SPDX-License-Identifier: Apache-2.0
// The shallow-water equations by finite differences on a grid that wraps around: velocities u and v
// and pressure p at three times, mass fluxes cu and cv, vorticity z and height h. Each step sweeps
// three times over most of the thirteen arrays.
//
// slow: rows are 4096 bytes and all arrays begin at multiples of it, so that the ten to fourteen
// rows that a sweep goes along fall into the same sets of a cache. cured: rows are a cache line
// longer, and each array begins four lines further on: no two of them share a set.
//
// shallow_water [rows, from 4 to 512] [steps] [slow|cured]
#include "form.h"

#define COLUMNS 512
#define LARGEST 512
#define LINE 8  // doubles in a cache line
#define ARRAYS 13
#define SIZE (LARGEST * (COLUMNS + LINE) + ARRAYS * 4 * LINE)

_Alignas(4096) double u[SIZE], v[SIZE], p[SIZE];
_Alignas(4096) double unew[SIZE], vnew[SIZE], pnew[SIZE];
_Alignas(4096) double uold[SIZE], vold[SIZE], pold[SIZE];
_Alignas(4096) double cu[SIZE], cv[SIZE], z[SIZE], h[SIZE];

// How many numbers further the next row begins, and where each array begins.
struct layout {
  long rows, pitch;
  double *u, *v, *p, *unew, *vnew, *pnew, *uold, *vold, *pold, *cu, *cv, *z, *h;
};

#define STEP 0.0009   // time over distance
#define SMOOTH 0.001  // of three times into one

NOINLINE static void fluxes(const struct layout* l) {
  const double *u = l->u, *v = l->v, *p = l->p;
  double *cu = l->cu, *cv = l->cv, *z = l->z, *h = l->h;
  long up = l->pitch;
  for (long row = 1; row < l->rows - 1; row++)
    for (long i = row * up + 1; i < row * up + COLUMNS - 1; i++) {
      cu[i] = 0.5 * (p[i] + p[i - up]) * u[i];
      cv[i] = 0.5 * (p[i] + p[i - 1]) * v[i];
      z[i] = (v[i] - v[i - up] - u[i] + u[i - 1]) / (p[i - up - 1] + p[i - 1] + p[i] + p[i - up]);
      h[i] =
          p[i] + 0.25 * (u[i + up] * u[i + up] + u[i] * u[i] + v[i + 1] * v[i + 1] + v[i] * v[i]);
    }
}

NOINLINE static void advance(const struct layout* l) {
  const double *cu = l->cu, *cv = l->cv, *z = l->z, *h = l->h;
  const double *uold = l->uold, *vold = l->vold, *pold = l->pold;
  double *unew = l->unew, *vnew = l->vnew, *pnew = l->pnew;
  long up = l->pitch;
  for (long row = 1; row < l->rows - 1; row++)
    for (long i = row * up + 1; i < row * up + COLUMNS - 1; i++) {
      double across = cv[i + 1] + cv[i - up + 1] + cv[i - up] + cv[i];
      double along = cu[i + up] + cu[i] + cu[i - 1] + cu[i + up - 1];
      unew[i] = uold[i] + STEP * ((z[i + 1] + z[i]) * across - h[i] + h[i - up]);
      vnew[i] = vold[i] - STEP * ((z[i + up] + z[i]) * along + h[i] - h[i - 1]);
      pnew[i] = pold[i] - STEP * (cu[i + up] - cu[i] + cv[i + 1] - cv[i]);
    }
}

NOINLINE static void smooth(const struct layout* l) {
  double *u = l->u, *v = l->v, *p = l->p, *uold = l->uold, *vold = l->vold, *pold = l->pold;
  const double *unew = l->unew, *vnew = l->vnew, *pnew = l->pnew;
  for (long row = 0; row < l->rows; row++)
    for (long i = row * l->pitch; i < row * l->pitch + COLUMNS; i++) {
      uold[i] = u[i] + SMOOTH * (unew[i] - 2 * u[i] + uold[i]);
      vold[i] = v[i] + SMOOTH * (vnew[i] - 2 * v[i] + vold[i]);
      pold[i] = p[i] + SMOOTH * (pnew[i] - 2 * p[i] + pold[i]);
      u[i] = unew[i];
      v[i] = vnew[i];
      p[i] = pnew[i];
    }
}

// The outermost numbers are those next to the ones on the other side.
NOINLINE static void wrap(const struct layout* l, double* data) {
  long last = l->rows - 1, pitch = l->pitch;
  for (long i = 0; i < COLUMNS; i++) {
    data[i] = data[(last - 1) * pitch + i];
    data[last * pitch + i] = data[pitch + i];
  }
  for (long row = 0; row <= last; row++) {
    data[row * pitch] = data[row * pitch + COLUMNS - 2];
    data[row * pitch + COLUMNS - 1] = data[row * pitch + 1];
  }
}

NOINLINE static void start(const struct layout* l) {
  for (long row = 0; row < l->rows; row++)
    for (long i = 0; i < COLUMNS; i++) {
      long at = row * l->pitch + i;
      double y = 2.0 * (double)row / (double)l->rows - 1, x = 2.0 * (double)i / COLUMNS - 1;
      l->u[at] = l->uold[at] = y * (1 - x * x);
      l->v[at] = l->vold[at] = -x * (1 - y * y);
      l->p[at] = l->pold[at] = 10 + (1 - x * x) * (1 - y * y);
    }
}

static struct layout lay_out(long rows, int cured) {
  long apart = cured ? 4 * LINE : 0;
  return (struct layout){
      .rows = rows,
      .pitch = COLUMNS + (cured ? LINE : 0),
      .u = u,
      .v = v + apart,
      .p = p + 2 * apart,
      .unew = unew + 3 * apart,
      .vnew = vnew + 4 * apart,
      .pnew = pnew + 5 * apart,
      .uold = uold + 6 * apart,
      .vold = vold + 7 * apart,
      .pold = pold + 8 * apart,
      .cu = cu + 9 * apart,
      .cv = cv + 10 * apart,
      .z = z + 11 * apart,
      .h = h + 12 * apart,
  };
}

NOINLINE static uint64_t sum_up(const struct layout* l) {
  uint64_t sum = 0;
  for (long row = 0; row < l->rows; row++)
    for (long i = row * l->pitch; i < row * l->pitch + COLUMNS; i++)
      sum += (bits_of(l->u[i]) >> 8) + (bits_of(l->v[i]) >> 8) + (bits_of(l->p[i]) >> 8);
  return sum;
}

int main(int argc, char** argv) {
  static const char* const forms[] = {"slow", "cured", NULL};
  uint64_t rows = argument(argc, argv, 1, 128), steps = argument(argc, argv, 2, 5);
  int form = form_argument(argc, argv, 3, forms);
  if (rows < 4 || rows > LARGEST) {
    fprintf(stderr, "%s: 4 <= rows <= %d, please\n", argv[0], LARGEST);
    return 2;
  }
  struct layout l = lay_out((long)rows, form);
  double* computed[] = {l.cu, l.cv, l.z, l.h, l.unew, l.vnew, l.pnew};
  start(&l);
  for (uint64_t i = 0; i < steps; i++) {
    fluxes(&l);
    for (int a = 0; a < 4; a++) wrap(&l, computed[a]);
    advance(&l);
    for (int a = 4; a < 7; a++) wrap(&l, computed[a]);
    smooth(&l);
  }
  printf("shallow_water checksum=%llu\n", (unsigned long long)sum_up(&l));
  return 0;
}
