// SPDX-License-Identifier: Apache-2.0
// What a policy says, and what follows from it for one block. No I/O and no memory of its own: the
// preloaded library reads a policy with it, and so does the engine, which predicts what the library
// will do.
//
//   stallscope-near-policy 1
//   site 92d9d08176d237708f702e84c2d730f710b13c46+0x10b5 line 5 step 20
//   site 92d9d08176d237708f702e84c2d730f710b13c46+0x10c4 packed
//
// A site is a return address of malloc, calloc or realloc, as an offset into a module that is known
// by its build id. line N step M: blocks of more than SS_NEAR_LARGEST bytes begin at line N of a
// page, N + M, and so on. packed: smaller blocks lie together, without headers, each near the one
// made before it. Lines about the same site add up; of two `line`, the later counts.
#ifndef STALLSCOPE_NEAR_RULES_H
#define STALLSCOPE_NEAR_RULES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { RULE_NO_LINE = 64, RULE_PAGE = 4096, RULE_LINE = 64, RULE_MOST_ID = 64 };

// One line of a policy.
struct rule {
  char module[2 * RULE_MOST_ID + 1];  // build id in hexadecimal
  uint64_t offset;
  uint8_t line;  // RULE_NO_LINE when it says nothing about large blocks
  uint8_t step;
  bool packed;
};

// All that a policy says of one site.
struct rule_site {
  uint8_t line;  // RULE_NO_LINE: large blocks go where malloc puts them
  uint8_t step;
  uint8_t packed;
  uint32_t made;  // large blocks so far
};

struct rule_fault {
  int line;  // 0 when there is none
  const char* why;
};

enum rule_place { RULE_PASS, RULE_LARGE, RULE_SMALL };

// Hands every rule to `take`, which returns false when it has no room. Writes into the text.
struct rule_fault rules_read(char* text, bool (*take)(const struct rule* rule, void* data),
                             void* data);

static inline struct rule_site rule_none(void) {
  struct rule_site site = {RULE_NO_LINE, 0, 0, 0};
  return site;
}

void rule_add(struct rule_site* site, const struct rule* rule);

// What to do with a block of this size.
enum rule_place rule_choose(const struct rule_site* site, size_t size);

// The line where the next large block of a site begins. Any thread.
unsigned rule_next_line(struct rule_site* site);

// Where a block that begins at a line lies in memory that is a page longer than it.
static inline uintptr_t rule_begin(uintptr_t memory, unsigned line) {
  return memory + (((uintptr_t)line * RULE_LINE - memory) & (RULE_PAGE - 1));
}

#ifdef __cplusplus
}
#endif

#endif
