// SPDX-License-Identifier: Apache-2.0
// Blocks of which look-ups read the first and the last field, two lines apart; after: the two lie
// beside each other.
#include "pair.h"

enum { USERS = 8000, LOOKUPS = 150000 };

struct user {
  uint64_t id;
  uint64_t notes[15];
  uint64_t score;
  uint64_t unused;
};
struct better {
  uint64_t id;
  uint64_t score;
  uint64_t notes[15];
  uint64_t unused;
};

NOINLINE static struct user* make_users(void) {
  struct user* users = must(malloc(USERS * sizeof *users));
  for (uint64_t i = 0; i < USERS; i++) users[i].id = users[i].score = users[i].notes[0] = i;
  return users;
}
NOINLINE static struct better* make_better(void) {
  struct better* users = must(malloc(USERS * sizeof *users));
  for (uint64_t i = 0; i < USERS; i++) users[i].id = users[i].score = users[i].notes[0] = i;
  return users;
}

NOINLINE static uint64_t look_up(const struct user* users) {
  uint64_t state = 1, sum = 0;
  for (int i = 0; i < LOOKUPS; i++) {
    const struct user* user = &users[next_random(&state) % USERS];
    sum += user->id + user->score;
  }
  return sum;
}
NOINLINE static uint64_t look_up_better(const struct better* users) {
  uint64_t state = 1, sum = 0;
  for (int i = 0; i < LOOKUPS; i++) {
    const struct better* user = &users[next_random(&state) % USERS];
    sum += user->id + user->score;
  }
  return sum;
}

int main(int argc, char** argv) {
  const uint64_t sum = is_after(argc, argv) ? look_up_better(make_better()) : look_up(make_users());
  printf("%llu\n", (unsigned long long)sum);
}
