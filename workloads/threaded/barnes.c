// SPDX-License-Identifier: Apache-2.0
// Bodies that pull at each other, in a tree of squares (Barnes and Hut). In every step another
// member builds the tree and sums up its masses; then all work out the forces on their bodies.
//
// barnes [bodies] [steps]
#include "team.h"

#define MOST 2048
#define CELLS (4 * MOST)
static LINE struct body { double x, y, vx, vy; } bodies[MOST];
static LINE struct cell {
  double mass, x, y, side;
  int child[4];  // a cell above 0, a body below 0, nothing at 0
  int inside, more[3];
} cells[CELLS];
static int used;
static long count, steps;

static int quarter(const struct cell* in, double cx, double cy, const struct body* b) {
  (void)in;
  return (b->x > cx) + 2 * (b->y > cy);
}

NOINLINE static void insert(int number) {
  const struct body* b = &bodies[number];
  int at = 1;
  double cx = 0.5, cy = 0.5, side = 0.25;
  for (int depth = 0; depth < 24; depth++) {
    struct cell* c = &cells[at];
    c->mass += 1;
    c->x += b->x;
    c->y += b->y;
    int q = quarter(c, cx, cy, b);
    if (c->child[q] == 0) {
      c->child[q] = -number - 1;
      return;
    }
    if (c->child[q] < 0) {
      int other = -c->child[q] - 1;
      if (used + 1 >= CELLS) return;
      int fresh = ++used;
      struct cell* f = &cells[fresh];
      f->mass = 1;
      f->x = bodies[other].x;
      f->y = bodies[other].y;
      f->side = side;
      double ox = cx + (q & 1 ? side : -side), oy = cy + (q & 2 ? side : -side);
      f->child[quarter(f, ox, oy, &bodies[other])] = -other - 1;
      c->child[q] = fresh;
    }
    cx += q & 1 ? side : -side;
    cy += q & 2 ? side : -side;
    side /= 2;
    at = c->child[q];
  }
}

NOINLINE static void build(void) {
  for (int i = 0; i <= used; i++)
    for (int q = 0; q < 4; q++) cells[i].child[q] = 0, cells[i].mass = cells[i].x = cells[i].y = 0;
  used = 1;
  cells[1].side = 0.5;
  for (int i = 0; i < count; i++) insert(i);
}

NOINLINE static void pull(struct body* b) {
  int stack[128], top = 0;
  stack[top++] = 1;
  double fx = 0, fy = 0;
  while (top > 0) {
    const struct cell* c = &cells[stack[--top]];
    double dx = c->x / c->mass - b->x, dy = c->y / c->mass - b->y;
    double far = dx * dx + dy * dy + 1e-4;
    if (c->side * c->side < 0.5 * far) {
      fx += c->mass * dx / far;
      fy += c->mass * dy / far;
      continue;
    }
    for (int q = 0; q < 4; q++) {
      if (c->child[q] > 0 && top < 128) stack[top++] = c->child[q];
      if (c->child[q] < 0) {
        const struct body* o = &bodies[-c->child[q] - 1];
        double ex = o->x - b->x, ey = o->y - b->y, near = ex * ex + ey * ey + 1e-4;
        fx += ex / near;
        fy += ey / near;
      }
    }
  }
  b->vx += 1e-7 * fx;
  b->vy += 1e-7 * fy;
}

static void work(long me) {
  for (long step = 0; step < steps; step++) {
    if (step % MEMBERS == me) build();
    team_wait();
    for (long i = me * count / MEMBERS; i < (me + 1) * count / MEMBERS; i++) pull(&bodies[i]);
    team_wait();
    for (long i = me * count / MEMBERS; i < (me + 1) * count / MEMBERS; i++) {
      bodies[i].x += bodies[i].vx;
      bodies[i].y += bodies[i].vy;
    }
    team_wait();
  }
}

int main(int argc, char** argv) {
  count = team_argument(argc, argv, 1, 256);
  steps = team_argument(argc, argv, 2, 8);
  if (count > MOST) count = MOST;
  for (long i = 0; i < count; i++) {
    bodies[i].x = fraction((uint64_t)(2 * i));
    bodies[i].y = fraction((uint64_t)(2 * i + 1));
  }
  team_run();
  printf("first=%.6f\n", bodies[0].x);
  return 0;
}
