// SPDX-License-Identifier: Apache-2.0
// Stations as an array of structs, each loop following one field from station to station; after: an
// array a field.
#include "pair.h"

enum { STATIONS = 32768, STEPS = 400000 };

struct station {
  struct station *by_train, *by_bus, *by_boat, *on_foot;
};

// Full circles, another one for each field.
static inline uint64_t further(uint64_t station, uint64_t field) {
  return (station * 5 + 1237 + 2 * field) % STATIONS;
}

NOINLINE static struct station* make_stations(void) {
  struct station* all = must(malloc(STATIONS * sizeof *all));
  for (uint64_t i = 0; i < STATIONS; i++) {
    all[i].by_train = &all[further(i, 0)];
    all[i].by_bus = &all[further(i, 1)];
    all[i].by_boat = &all[further(i, 2)];
    all[i].on_foot = &all[further(i, 3)];
  }
  return all;
}

NOINLINE static uint64_t ride(const struct station* all) {
  const struct station* at = all;
  for (uint64_t i = 0; i < STEPS; i++) at = at->by_train;
  for (uint64_t i = 0; i < STEPS; i++) at = at->by_bus;
  return (uint64_t)(at - all);
}

NOINLINE static uint64_t* make_columns(void) {
  uint64_t* all = must(aligned_alloc(64, 4 * STATIONS * sizeof *all));
  for (uint64_t i = 0; i < STATIONS; i++)
    for (uint64_t field = 0; field < 4; field++) all[field * STATIONS + i] = further(i, field);
  return all;
}

NOINLINE static uint64_t ride_columns(const uint64_t* by_train, const uint64_t* by_bus) {
  uint64_t at = 0;
  for (uint64_t i = 0; i < STEPS; i++) at = by_train[at];
  for (uint64_t i = 0; i < STEPS; i++) at = by_bus[at];
  return at;
}

int main(int argc, char** argv) {
  uint64_t at;
  if (is_after(argc, argv)) {
    const uint64_t* all = make_columns();
    at = ride_columns(all, all + STATIONS);
  } else {
    at = ride(make_stations());
  }
  printf("%llu\n", (unsigned long long)at);
}
