// SPDX-License-Identifier: Apache-2.0
#define _GNU_SOURCE
#include "rules.h"

#include <stdio.h>
#include <string.h>

#include "stallscope_near.h"

static bool read_rule(const char* line, struct rule* rule) {
  unsigned long offset, number = RULE_NO_LINE, step = 0;
  char what[8];
  int used = 0;
  if (sscanf(line, "site %128[0-9a-f]+0x%lx %7s%n", rule->module, &offset, what, &used) != 3)
    return false;
  rule->packed = strcmp(what, "packed") == 0;
  if (!rule->packed && strcmp(what, "line") != 0) return false;
  if (!rule->packed) {
    int more = 0;
    if (sscanf(line + used, " %2lu step %2lu%n", &number, &step, &more) != 2) return false;
    if (number >= RULE_NO_LINE || step >= RULE_NO_LINE) return false;
    used += more;
  }
  rule->offset = offset;
  rule->line = (uint8_t)number;
  rule->step = (uint8_t)step;
  return line[used] == '\0';
}

struct rule_fault rules_read(char* text, bool (*take)(const struct rule* rule, void* data),
                             void* data) {
  char* rest = text;
  // The first line is looked at even when there is none.
  for (int number = 1; number == 1 || (rest != NULL && *rest != '\0'); number++) {
    const char* line = strsep(&rest, "\n");
    struct rule rule;
    if (number == 1) {
      if (strcmp(line, "stallscope-near-policy 1") != 0)
        return (struct rule_fault){number, "expected: stallscope-near-policy 1"};
    } else if (*line != '\0' && *line != '#') {
      if (!read_rule(line, &rule))
        return (struct rule_fault){
            number, "expected: site BUILD_ID+0xOFFSET, then packed, or line N step M (0 to 63)"};
      if (!take(&rule, data)) return (struct rule_fault){number, "there are too many sites"};
    }
  }
  return (struct rule_fault){0, NULL};
}

void rule_add(struct rule_site* site, const struct rule* rule) {
  if (rule->packed) {
    site->packed = 1;
  } else {
    site->line = rule->line;
    site->step = rule->step;
  }
}

enum rule_place rule_choose(const struct rule_site* site, size_t size) {
  if (size > SS_NEAR_LARGEST) return site->line == RULE_NO_LINE ? RULE_PASS : RULE_LARGE;
  return site->packed ? RULE_SMALL : RULE_PASS;
}

unsigned rule_next_line(struct rule_site* site) {
  uint32_t made = __atomic_fetch_add(&site->made, 1, __ATOMIC_RELAXED);
  return (site->line + made * site->step) % RULE_NO_LINE;
}
