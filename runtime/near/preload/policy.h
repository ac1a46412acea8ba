// SPDX-License-Identifier: Apache-2.0
// Which allocation sites of this program are placed, and how: read once, when the program starts,
// from the file that STALLSCOPE_NEAR_POLICY names (rules.h). Modules that are loaded later are not
// looked for.
#ifndef STALLSCOPE_NEAR_POLICY_H
#define STALLSCOPE_NEAR_POLICY_H

#include "rules.h"

struct policy_site {
  uintptr_t address;  // 0 in an empty entry
  struct rule_site rule;
  void* newest;  // small block of this site; read and written by all threads, and only a hint
};

// Reads the file. When anything in it is wrong, says so on standard error and there is no policy: a
// program must run whatever its policy is.
void policy_read(const char* path);

// Whether any site is to be placed.
bool policy_exists(void);

// The site with this return address; NULL for most. Any thread, once policy_read is done.
struct policy_site* policy_find(const void* address);

#endif
