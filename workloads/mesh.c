// SPDX-License-Identifier: Apache-2.0
// Relaxation on an unstructured mesh: each node's next value comes from its neighbours', found
// through their numbers. The mesh is a square of side * side nodes, joined along its sides and
// along one diagonal of each cell, which one by chance.
//
// slow: nodes are numbered by chance, so neighbours' values are anywhere. cured: before the first
// sweep, nodes are numbered anew in the order in which a breadth-first search meets them, so that
// neighbours have numbers, and values places, close to each other.
//
// mesh [side] [sweeps] [slow|cured]
#include "form.h"

struct mesh {
  uint32_t nodes;
  uint32_t* first;       // where each node's neighbours begin; one more than there are nodes
  uint32_t* neighbours;  // numbers of nodes
  uint32_t* identity;    // what a node was called at first
  double *values, *next;
};

NOINLINE static void make_topology(struct mesh* mesh, uint32_t nodes, uint32_t links) {
  mesh->nodes = nodes;
  mesh->first = must(malloc((nodes + 1) * sizeof *mesh->first));
  mesh->neighbours = must(malloc(links * sizeof *mesh->neighbours));
  mesh->identity = must(malloc(nodes * sizeof *mesh->identity));
}

NOINLINE static void make_values(struct mesh* mesh) {
  mesh->values = must(malloc(mesh->nodes * sizeof *mesh->values));
  mesh->next = must(malloc(mesh->nodes * sizeof *mesh->next));
  for (uint32_t i = 0; i < mesh->nodes; i++)
    mesh->values[i] = (double)(scatter(mesh->identity[i]) % 1000);
}

NOINLINE static void free_topology(struct mesh* mesh) {
  free(mesh->first);
  free(mesh->neighbours);
  free(mesh->identity);
}

NOINLINE static void shuffle(uint32_t* numbers, uint32_t count) {
  uint64_t state = 1;
  for (uint32_t i = 0; i < count; i++) numbers[i] = i;
  for (uint32_t i = count - 1; i > 0; i--) {
    uint32_t j = (uint32_t)(next_random(&state) % (i + 1)), held = numbers[i];
    numbers[i] = numbers[j];
    numbers[j] = held;
  }
}

// Whether the diagonal of the cell right of and below (x, y) goes down to the right.
static int falls(uint32_t x, uint32_t y, uint32_t side) { return scatter(y * side + x) & 1; }

// Writes the places next to (x, y), eight at most, and returns how many there are.
static uint32_t beside(uint32_t x, uint32_t y, uint32_t side, uint32_t* places) {
  uint32_t count = 0, here = y * side + x, last = side - 1;
  if (x > 0) places[count++] = here - 1;
  if (x < last) places[count++] = here + 1;
  if (y > 0) places[count++] = here - side;
  if (y < last) places[count++] = here + side;
  if (x < last && y < last && falls(x, y, side)) places[count++] = here + side + 1;
  if (x > 0 && y > 0 && falls(x - 1, y - 1, side)) places[count++] = here - side - 1;
  if (x > 0 && y < last && !falls(x - 1, y, side)) places[count++] = here + side - 1;
  if (x < last && y > 0 && !falls(x, y - 1, side)) places[count++] = here - side + 1;
  return count;
}

NOINLINE static void build(struct mesh* mesh, uint32_t side) {
  uint32_t nodes = side * side, links = 2 * (2 * side * (side - 1) + (side - 1) * (side - 1));
  make_topology(mesh, nodes, links);
  uint32_t* place = must(malloc(nodes * sizeof *place));
  uint32_t* number = must(malloc(nodes * sizeof *number));
  shuffle(place, nodes);
  for (uint32_t i = 0; i < nodes; i++) number[place[i]] = i;
  uint32_t used = 0, places[8];
  for (uint32_t i = 0; i < nodes; i++) {
    mesh->first[i] = used;
    mesh->identity[i] = place[i];
    uint32_t count = beside(place[i] % side, place[i] / side, side, places);
    for (uint32_t j = 0; j < count; j++) mesh->neighbours[used++] = number[places[j]];
  }
  mesh->first[nodes] = used;
  free(place);
  free(number);
}

// The old numbers of nodes in the order in which a breadth-first search from node 0 meets them; the
// new number of each old one goes to `number`.
NOINLINE static uint32_t* search(const struct mesh* mesh, uint32_t* number) {
  uint32_t* order = must(malloc(mesh->nodes * sizeof *order));
  uint32_t found = 1;
  for (uint32_t i = 0; i < mesh->nodes; i++) number[i] = UINT32_MAX;
  order[0] = number[0] = 0;
  for (uint32_t i = 0; i < mesh->nodes; i++)
    for (uint32_t j = mesh->first[order[i]]; j < mesh->first[order[i] + 1]; j++) {
      uint32_t node = mesh->neighbours[j];
      if (number[node] != UINT32_MAX) continue;
      number[node] = found;
      order[found++] = node;
    }
  return order;
}

NOINLINE static void renumber(struct mesh* mesh) {
  struct mesh old = *mesh;
  uint32_t* number = must(malloc(old.nodes * sizeof *number));
  uint32_t* order = search(&old, number);
  make_topology(mesh, old.nodes, old.first[old.nodes]);
  uint32_t used = 0;
  for (uint32_t i = 0; i < old.nodes; i++) {
    mesh->first[i] = used;
    mesh->identity[i] = old.identity[order[i]];
    for (uint32_t j = old.first[order[i]]; j < old.first[order[i] + 1]; j++)
      mesh->neighbours[used++] = number[old.neighbours[j]];
  }
  mesh->first[old.nodes] = used;
  free(order);
  free(number);
  free_topology(&old);
}

NOINLINE static void relax(const struct mesh* mesh, const double* values, double* next) {
  const uint32_t* neighbours = mesh->neighbours;
  uint32_t link = mesh->first[0];
  for (uint32_t i = 0; i < mesh->nodes; i++) {
    double sum = 0;
    uint32_t begin = link, end = mesh->first[i + 1];
    for (; link < end; link++) sum += values[neighbours[link]];
    next[i] = 0.5 * values[i] + 0.5 * sum / (end - begin);
  }
}

NOINLINE static uint64_t sum_up(const struct mesh* mesh, const double* values) {
  uint64_t sum = 0;
  for (uint32_t i = 0; i < mesh->nodes; i++) sum += scatter(bits_of(values[i]) + mesh->identity[i]);
  return sum;
}

int main(int argc, char** argv) {
  static const char* const forms[] = {"slow", "cured", NULL};
  uint64_t side = argument(argc, argv, 1, 200), sweeps = argument(argc, argv, 2, 10);
  int form = form_argument(argc, argv, 3, forms);
  if (side < 2 || side > 8192) {
    fprintf(stderr, "%s: 2 <= side <= 8192, please\n", argv[0]);
    return 2;
  }
  struct mesh mesh;
  build(&mesh, (uint32_t)side);
  if (form > 0) renumber(&mesh);
  make_values(&mesh);
  for (uint64_t i = 0; i < sweeps; i++) {
    relax(&mesh, mesh.values, mesh.next);
    double* held = mesh.values;
    mesh.values = mesh.next;
    mesh.next = held;
  }
  printf("mesh checksum=%llu\n", (unsigned long long)sum_up(&mesh, mesh.values));
  free(mesh.values);
  free(mesh.next);
  free_topology(&mesh);
  return 0;
}
