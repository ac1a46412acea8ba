// SPDX-License-Identifier: Apache-2.0
// A hash join: the build side goes into a table of buckets with chains, then every row of the probe
// side, read in order, looks for its partner. About half find one. The probe side streams, the
// buckets are touched once a row, the chains run through the build side and miss most.
//
// hashjoin [build rows] [probe rows] [buckets]
#include "random.h"

struct build_row {
  uint64_t key;
  uint64_t payload[2];
  struct build_row* next;
};

struct probe_row {
  uint64_t key;
  uint64_t payload;
};

struct build_row* build_side;
struct probe_row* probe_side;
struct build_row** buckets;

NOINLINE static void make_tables(uint64_t build_rows, uint64_t probe_rows, uint64_t bucket_count) {
  build_side = must(malloc(build_rows * sizeof *build_side));
  probe_side = must(malloc(probe_rows * sizeof *probe_side));
  buckets = must(calloc(bucket_count, sizeof *buckets));
  uint64_t state = 1;
  for (uint64_t i = 0; i < build_rows; i++)
    build_side[i] = (struct build_row){scatter(i), {i, i ^ 1}, NULL};
  for (uint64_t i = 0; i < probe_rows; i++)
    probe_side[i] = (struct probe_row){scatter(next_random(&state) % (2 * build_rows)), i};
}

NOINLINE static void build(struct build_row* rows, uint64_t count, struct build_row** table,
                           uint64_t bucket_count) {
  for (uint64_t i = 0; i < count; i++) {
    struct build_row** bucket = &table[rows[i].key % bucket_count];
    rows[i].next = *bucket;
    *bucket = &rows[i];
  }
}

struct joined {
  uint64_t matches, steps, checksum;
};

NOINLINE static struct joined probe(const struct probe_row* rows, uint64_t count,
                                    struct build_row** table, uint64_t bucket_count) {
  struct joined result = {0, 0, 0};
  for (uint64_t i = 0; i < count; i++) {
    uint64_t key = rows[i].key;
    const struct build_row* row = table[key % bucket_count];
    for (; row != NULL; row = row->next) {
      result.steps++;
      if (row->key != key) continue;
      result.matches++;
      result.checksum = result.checksum * 3 + row->payload[0] + rows[i].payload;
      break;
    }
  }
  return result;
}

int main(int argc, char** argv) {
  uint64_t build_rows = argument(argc, argv, 1, 40000),
           probe_rows = argument(argc, argv, 2, 200000);
  uint64_t bucket_count = argument(argc, argv, 3, 10000);
  make_tables(build_rows, probe_rows, bucket_count);
  build(build_side, build_rows, buckets, bucket_count);
  struct joined result = probe(probe_side, probe_rows, buckets, bucket_count);
  free(build_side);
  free(probe_side);
  free(buckets);
  printf("hashjoin matches=%llu steps=%llu checksum=%llu\n", (unsigned long long)result.matches,
         (unsigned long long)result.steps, (unsigned long long)result.checksum);
  return 0;
}
