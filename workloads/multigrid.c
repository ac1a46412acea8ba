// SPDX-License-Identifier: Apache-2.0
// V-cycles of a multigrid solver with 27-point stencils on a grid of 512 columns: U is the
// solution, V the right-hand side, R the residual; U and R hold all levels, one after the other.
//
// slow: a row of the finest grid is 4096 bytes, so the nine rows that a stencil reads, and the rows
// of V and R, all fall into the same sets of a cache, and evict each other before they are used up.
// padded: rows are a cache line longer, planes three and arrays begin elsewhere: no two rows of a
// stencil share a set. tiled: padded, and rows are taken in tiles through all planes, so that the
// planes of a tile are still cached when the next plane needs them.
//
// multigrid [n: rows and planes, from 8 to 64] [cycles] [slow|padded|tiled]
#include "form.h"

#define COLUMNS 512
#define LARGEST 64
#define LINE 8  // doubles in a cache line
#define TILE_ROWS 10
#define TILE_COLUMNS 64
#define LEVELS 4
#define ALL_LEVELS (LARGEST * (LARGEST * (COLUMNS + LINE) + 3 * LINE) * 5 / 4)

_Alignas(4096) double U[ALL_LEVELS];
_Alignas(4096) double V[ALL_LEVELS];
_Alignas(4096) double R[ALL_LEVELS];

// Where the numbers of a level lie: the numbers in a row, rows in a plane, planes; and how far
// apart rows and planes are.
struct grid {
  long columns, rows, planes, row, plane;
  int tiled;
  double *u, *v, *r;
};

// Rows and columns of a grid: all of the inner ones, or a tile.
struct part {
  long first_row, end_row, first, end;
};

// Sums of the neighbours of `at`: the 6 that share a face with it, the 12 that share an edge, and
// the 8 that share a corner. BESIDE and ACROSS are the four in its own column that share an edge or
// only a corner with it in the plane across the rows.
#define BESIDE(at, row, plane) ((at)[-(row)] + (at)[row] + (at)[-(plane)] + (at)[plane])
#define ACROSS(at, row, plane) \
  ((at)[-(row) - (plane)] + (at)[(row) - (plane)] + (at)[(plane) - (row)] + (at)[(row) + (plane)])
#define FACES(at, row, plane) ((at)[-1] + (at)[1] + BESIDE(at, row, plane))
#define EDGES(at, row, plane) \
  (ACROSS(at, row, plane) + BESIDE((at)-1, row, plane) + BESIDE((at) + 1, row, plane))
#define CORNERS(at, row, plane) (ACROSS((at)-1, row, plane) + ACROSS((at) + 1, row, plane))

// r = v - A u in a part of each row and plane
NOINLINE static void resid(const struct grid* g, struct part part, const double* v) {
  const double* u = g->u;
  long row = g->row, plane = g->plane;
  for (long k = 1; k < g->planes - 1; k++)
    for (long j = part.first_row; j < part.end_row; j++)
      for (long i = k * plane + j * row + part.first; i < k * plane + j * row + part.end; i++) {
        double edges = EDGES(u + i, row, plane), corners = CORNERS(u + i, row, plane);
        g->r[i] = v[i] + 8.0 / 3.0 * u[i] - 1.0 / 6.0 * edges - 1.0 / 12.0 * corners;
      }
}

// u = u + S r in a part of each row and plane
NOINLINE static void psinv(const struct grid* g, struct part part, const double* r) {
  double* u = g->u;
  long row = g->row, plane = g->plane;
  for (long k = 1; k < g->planes - 1; k++)
    for (long j = part.first_row; j < part.end_row; j++)
      for (long i = k * plane + j * row + part.first; i < k * plane + j * row + part.end; i++) {
        double faces = FACES(r + i, row, plane), edges = EDGES(r + i, row, plane);
        u[i] += -3.0 / 8.0 * r[i] + 1.0 / 32.0 * faces - 1.0 / 64.0 * edges;
      }
}

static long least(long a, long b) { return a < b ? a : b; }

static void for_each_part(void (*stencil)(const struct grid*, struct part, const double*),
                          const struct grid* g, const double* data) {
  long rows = g->tiled ? TILE_ROWS : g->rows, columns = g->tiled ? TILE_COLUMNS : g->columns;
  for (long j = 1; j < g->rows - 1; j += rows)
    for (long i = 1; i < g->columns - 1; i += columns) {
      struct part part = {j, least(j + rows, g->rows - 1), i, least(i + columns, g->columns - 1)};
      stencil(g, part, data);
    }
}

// Residual of a level to the next coarser one.
NOINLINE static void restrict_to(const struct grid* fine, const struct grid* coarse) {
  for (long k = 1; k < coarse->planes - 1; k++)
    for (long j = 1; j < coarse->rows - 1; j++)
      for (long i = 1; i < coarse->columns - 1; i++) {
        const double* at = fine->r + 2 * k * fine->plane + 2 * j * fine->row + 2 * i;
        coarse->r[k * coarse->plane + j * coarse->row + i] =
            0.5 * at[0] + 0.25 * (at[-1] + at[1]) + 0.125 * (at[-fine->row] + at[fine->row]);
      }
}

// Adds the solution of the next coarser level.
NOINLINE static void interp(const struct grid* coarse, const struct grid* fine) {
  for (long k = 1; k < fine->planes - 1; k++)
    for (long j = 1; j < fine->rows - 1; j++) {
      const double* from = coarse->u + k / 2 * coarse->plane + j / 2 * coarse->row;
      double* to = fine->u + k * fine->plane + j * fine->row;
      for (long i = 1; i < fine->columns - 1; i++) to[i] += 0.5 * (from[i / 2] + from[(i + 1) / 2]);
    }
}

NOINLINE static void clear(const struct grid* g) {
  for (long k = 0; k < g->planes; k++)
    for (long j = 0; j < g->rows; j++)
      for (long i = 0; i < g->columns; i++) g->u[k * g->plane + j * g->row + i] = 0;
}

NOINLINE static void cycle(const struct grid* grids, int levels) {
  for (int l = 1; l < levels; l++) restrict_to(&grids[l - 1], &grids[l]);
  clear(&grids[levels - 1]);
  for_each_part(psinv, &grids[levels - 1], grids[levels - 1].r);
  for (int l = levels - 2; l >= 0; l--) {
    const struct grid* g = &grids[l];
    if (l > 0) clear(g);
    interp(&grids[l + 1], g);
    for_each_part(resid, g, l > 0 ? g->r : g->v);
    for_each_part(psinv, g, g->r);
  }
  for_each_part(resid, &grids[0], grids[0].v);
}

static int lay_out(struct grid* grids, long n, int padded, int tiled) {
  int levels = 0;
  long before = 0;
  for (; levels < LEVELS && n >> levels >= 4; levels++) {
    struct grid* g = &grids[levels];
    g->columns = COLUMNS >> levels;
    g->rows = g->planes = n >> levels;
    g->row = g->columns + (padded ? LINE : 0);
    g->plane = g->rows * g->row + (padded ? 3 * LINE : 0);
    g->tiled = tiled;
    g->u = U + before;
    g->v = V + before + (padded ? 16 * LINE : 0);
    g->r = R + before + (padded ? 32 * LINE : 0);
    before += g->planes * g->plane;
  }
  return levels;
}

NOINLINE static void charge(const struct grid* g) {
  for (uint64_t i = 0; i < 20; i++) {
    long k = 1 + (long)(scatter(3 * i) % (uint64_t)(g->planes - 2));
    long j = 1 + (long)(scatter(3 * i + 1) % (uint64_t)(g->rows - 2));
    g->v[k * g->plane + j * g->row + 1 + (long)(scatter(3 * i + 2) % (COLUMNS - 2))] =
        i % 2 ? 1 : -1;
  }
}

NOINLINE static uint64_t sum_up(const struct grid* g) {
  uint64_t sum = 0;
  for (long k = 0; k < g->planes; k++)
    for (long j = 0; j < g->rows; j++)
      for (long i = 0; i < g->columns; i++)
        sum += bits_of(g->u[k * g->plane + j * g->row + i]) >> 8;
  return sum;
}

int main(int argc, char** argv) {
  static const char* const forms[] = {"slow", "padded", "tiled", NULL};
  uint64_t n = argument(argc, argv, 1, 32), cycles = argument(argc, argv, 2, 2);
  int form = form_argument(argc, argv, 3, forms);
  if (n < 8 || n > LARGEST || (n & (n - 1)) != 0) {
    fprintf(stderr, "%s: n is 8, 16, 32 or 64, please\n", argv[0]);
    return 2;
  }
  struct grid grids[LEVELS];
  int levels = lay_out(grids, (long)n, form > 0, form > 1);
  charge(&grids[0]);
  for_each_part(resid, &grids[0], grids[0].v);
  for (uint64_t i = 0; i < cycles; i++) cycle(grids, levels);
  printf("multigrid checksum=%llu\n", (unsigned long long)sum_up(&grids[0]));
  return 0;
}
