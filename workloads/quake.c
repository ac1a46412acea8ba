// SPDX-License-Identifier: Apache-2.0
// Waves through a body of n * n * n nodes: each step multiplies the displacements of now by the
// stiffness matrix K, a symmetric sparse matrix of 3 * 3 blocks of which one half is stored.
// Displacements are disp[time][node][axis], for three times in turn.
//
// slow: K and disp are pointers to pointers to rows of three numbers, each row a heap block of 24
// bytes, as programs do that want K[i][j][k] with sizes known at run time. packed: the same
// pointers, into one block for each level. static: global arrays without pointers.
//
// quake [n, at most 40] [steps] [slow|packed|static]
#include "form.h"

#define LARGEST 40
#define MOST_NODES (LARGEST * LARGEST * LARGEST)
#define MOST_ENTRIES (((3 * LARGEST - 2) * (3 * LARGEST - 2) * (3 * LARGEST - 2) + MOST_NODES) / 2)

double K_static[MOST_ENTRIES][3][3];
double disp_static[3][MOST_NODES][3];

// Which columns have entries: those of row i are column[first[i]] and further, the diagonal first.
uint32_t first[MOST_NODES + 1];
uint32_t column[MOST_ENTRIES];

enum form { SLOW, PACKED, STATIC };

static int inside(long position, long n) { return position >= 0 && position < n; }

// The nodes around a node that come after it, up to 13.
static void couple(long node, long n, uint32_t* used) {
  long x = node % n, y = node / n % n, z = node / n / n;
  for (long step = 14; step < 27; step++) {
    long dx = step % 3 - 1, dy = step / 3 % 3 - 1, dz = step / 9 - 1;
    if (inside(x + dx, n) && inside(y + dy, n) && inside(z + dz, n))
      column[(*used)++] = (uint32_t)(((z + dz) * n + y + dy) * n + x + dx);
  }
}

NOINLINE static uint32_t build_pattern(long n) {
  uint32_t used = 0;
  for (long node = 0; node < n * n * n; node++) {
    first[node] = used;
    column[used++] = (uint32_t)node;
    couple(node, n, &used);
  }
  return first[n * n * n] = used;
}

static double stiffness(uint32_t entry, int row, int axis) {
  return (double)(scatter(entry * 9 + (uint32_t)(row * 3 + axis)) % 1000) / 200000;
}

NOINLINE static double*** make_slow_K(uint32_t entries) {
  double*** K = must(malloc(entries * sizeof *K));
  for (uint32_t i = 0; i < entries; i++) {
    K[i] = must(malloc(3 * sizeof *K[i]));
    for (int j = 0; j < 3; j++) K[i][j] = must(malloc(3 * sizeof *K[i][j]));
  }
  return K;
}

NOINLINE static double*** make_packed_K(uint32_t entries) {
  double*** K_1 = must(malloc(entries * sizeof *K_1));
  double** K_2 = must(malloc(3 * entries * sizeof *K_2));
  double* K_3 = must(malloc(9 * entries * sizeof *K_3));
  for (uint32_t i = 0; i < entries; i++) K_1[i] = K_2 + 3 * i;
  for (uint32_t i = 0; i < 3 * entries; i++) K_2[i] = K_3 + 3 * i;
  return K_1;
}

NOINLINE static double*** make_slow_disp(uint32_t nodes) {
  double*** disp = must(malloc(3 * sizeof *disp));
  for (int t = 0; t < 3; t++) {
    disp[t] = must(malloc(nodes * sizeof *disp[t]));
    for (uint32_t i = 0; i < nodes; i++) disp[t][i] = must(malloc(3 * sizeof *disp[t][i]));
  }
  return disp;
}

NOINLINE static double*** make_packed_disp(uint32_t nodes) {
  double*** disp_1 = must(malloc(3 * sizeof *disp_1));
  double** disp_2 = must(malloc(3 * nodes * sizeof *disp_2));
  double* disp_3 = must(malloc(9 * nodes * sizeof *disp_3));
  for (int t = 0; t < 3; t++) disp_1[t] = disp_2 + (uint32_t)t * nodes;
  for (uint32_t i = 0; i < 3 * nodes; i++) disp_2[i] = disp_3 + 3 * i;
  return disp_1;
}

NOINLINE static void free_tree(double*** tree, uint32_t branches, uint32_t leaves, int packed) {
  if (packed) {
    free(tree[0][0]);
    free(tree[0]);
  } else {
    for (uint32_t i = 0; i < branches; i++) {
      for (uint32_t j = 0; j < leaves; j++) free(tree[i][j]);
      free(tree[i]);
    }
  }
  free(tree);
}

// w += K v, where the stored half of K stands for both.
NOINLINE static void smvp(uint32_t nodes, double*** K, double** v, double** w) {
  for (uint32_t i = 0; i < nodes; i++) {
    double sum[3];
    for (int j = 0; j < 3; j++)
      sum[j] =
          K[first[i]][j][0] * v[i][0] + K[first[i]][j][1] * v[i][1] + K[first[i]][j][2] * v[i][2];
    for (uint32_t e = first[i] + 1; e < first[i + 1]; e++) {
      uint32_t c = column[e];
      for (int j = 0; j < 3; j++) {
        sum[j] += K[e][j][0] * v[c][0] + K[e][j][1] * v[c][1] + K[e][j][2] * v[c][2];
        w[c][j] += K[e][0][j] * v[i][0] + K[e][1][j] * v[i][1] + K[e][2][j] * v[i][2];
      }
    }
    for (int j = 0; j < 3; j++) w[i][j] += sum[j];
  }
}

NOINLINE static void smvp_static(uint32_t nodes, double (*A)[3][3], double (*v)[3],
                                 double (*w)[3]) {
  for (uint32_t i = 0; i < nodes; i++) {
    double sum[3];
    for (int j = 0; j < 3; j++)
      sum[j] =
          A[first[i]][j][0] * v[i][0] + A[first[i]][j][1] * v[i][1] + A[first[i]][j][2] * v[i][2];
    for (uint32_t e = first[i] + 1; e < first[i + 1]; e++) {
      uint32_t c = column[e];
      for (int j = 0; j < 3; j++) {
        sum[j] += A[e][j][0] * v[c][0] + A[e][j][1] * v[c][1] + A[e][j][2] * v[c][2];
        w[c][j] += A[e][0][j] * v[i][0] + A[e][1][j] * v[i][1] + A[e][2][j] * v[i][2];
      }
    }
    for (int j = 0; j < 3; j++) w[i][j] += sum[j];
  }
}

// What was K v becomes the displacement to come.
static void integrate(double* coming, const double* now, double* before) {
  for (int j = 0; j < 3; j++) {
    coming[j] = now[j] + 0.99 * (now[j] - before[j]) - 0.1 * coming[j];
    before[j] = 0;
  }
}

static uint64_t run(uint32_t nodes, uint64_t steps, uint32_t entries, int packed) {
  double*** K = packed ? make_packed_K(entries) : make_slow_K(entries);
  double*** disp = packed ? make_packed_disp(nodes) : make_slow_disp(nodes);
  for (uint32_t e = 0; e < entries; e++)
    for (int j = 0; j < 9; j++) K[e][j / 3][j % 3] = stiffness(e, j / 3, j % 3);
  for (int t = 0; t < 3; t++)
    for (uint32_t i = 0; i < nodes; i++) memset(disp[t][i], 0, 3 * sizeof(double));
  disp[1][nodes / 2][0] = 1;
  for (uint64_t s = 0; s < steps; s++) {
    double **before = disp[s % 3], **now = disp[(s + 1) % 3], **coming = disp[(s + 2) % 3];
    smvp(nodes, K, now, coming);
    for (uint32_t i = 0; i < nodes; i++) integrate(coming[i], now[i], before[i]);
  }
  uint64_t sum = 0;
  for (uint32_t i = 0; i < 3 * nodes; i++) sum += bits_of(disp[(steps + 1) % 3][i / 3][i % 3]) >> 8;
  free_tree(K, entries, 3, packed);
  free_tree(disp, 3, nodes, packed);
  return sum;
}

static uint64_t run_static(uint32_t nodes, uint64_t steps, uint32_t entries) {
  for (uint32_t e = 0; e < entries; e++)
    for (int j = 0; j < 9; j++) K_static[e][j / 3][j % 3] = stiffness(e, j / 3, j % 3);
  disp_static[1][nodes / 2][0] = 1;
  for (uint64_t s = 0; s < steps; s++) {
    uint64_t before = s % 3, now = (s + 1) % 3, coming = (s + 2) % 3;
    smvp_static(nodes, K_static, disp_static[now], disp_static[coming]);
    for (uint32_t i = 0; i < nodes; i++)
      integrate(disp_static[coming][i], disp_static[now][i], disp_static[before][i]);
  }
  uint64_t sum = 0;
  for (uint32_t i = 0; i < 3 * nodes; i++)
    sum += bits_of(disp_static[(steps + 1) % 3][i / 3][i % 3]) >> 8;
  return sum;
}

int main(int argc, char** argv) {
  static const char* const forms[] = {"slow", "packed", "static", NULL};
  uint64_t n = argument(argc, argv, 1, 16), steps = argument(argc, argv, 2, 10);
  enum form form = (enum form)form_argument(argc, argv, 3, forms);
  if (n > LARGEST) {
    fprintf(stderr, "%s: n <= %d, please\n", argv[0], LARGEST);
    return 2;
  }
  uint32_t nodes = (uint32_t)(n * n * n), entries = build_pattern((long)n);
  uint64_t checksum = form == STATIC ? run_static(nodes, steps, entries)
                                     : run(nodes, steps, entries, form == PACKED);
  printf("quake checksum=%llu\n", (unsigned long long)checksum);
  return 0;
}
