// SPDX-License-Identifier: Apache-2.0
// Records whose first field tells which record holds the score, mostly its own; the score is two
// lines further on. After: the two fields lie beside each other.
#include "pair.h"

enum { USERS = 6000, LOOKUPS = 300000 };

struct user {
  uint64_t owner;
  uint64_t notes[15];
  uint64_t score;
  uint64_t unused;
};
struct better {
  uint64_t owner;
  uint64_t score;
  uint64_t notes[15];
  uint64_t unused;
};

#define MAKE(name, type)                                      \
  NOINLINE static struct type* name(void) {                   \
    struct type* users = must(malloc(USERS * sizeof *users)); \
    for (uint64_t i = 0; i < USERS; i++) {                    \
      users[i].owner = i;                                     \
      users[i].score = scatter(i) % USERS;                    \
    }                                                         \
    return users;                                             \
  }
#define LOOK_UP(name, type)                                                                 \
  NOINLINE static uint64_t name(const struct type* users) {                                 \
    uint64_t at = 0;                                                                        \
    for (uint64_t i = 0; i < LOOKUPS; i++) at = (users[users[at].owner].score + i) % USERS; \
    return at;                                                                              \
  }
MAKE(make_users, user)
MAKE(make_better, better)
LOOK_UP(look_up, user)
LOOK_UP(look_up_better, better)

int main(int argc, char** argv) {
  const uint64_t sum = is_after(argc, argv) ? look_up_better(make_better()) : look_up(make_users());
  printf("%llu\n", (unsigned long long)sum);
}
