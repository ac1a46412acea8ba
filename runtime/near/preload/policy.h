// SPDX-License-Identifier: Apache-2.0
// Which allocation sites are placed, and how: read once, when the program starts, from the file
// that STALLSCOPE_NEAR_POLICY names. A site is a return address of malloc, calloc or realloc, as an
// offset into a module that is known by its build id; modules that are loaded later are not looked
// for.
//
//   stallscope-near-policy 1
//   site 92d9d08176d237708f702e84c2d730f710b13c46+0x10b5 line 5 step 20
//   site 92d9d08176d237708f702e84c2d730f710b13c46+0x10c4 packed
//
// line N step M: blocks of more than SS_NEAR_LARGEST bytes begin at line N of a page, N + M, and so
// on. packed: smaller blocks lie together, without headers, each near the one made before it.
#ifndef STALLSCOPE_NEAR_POLICY_H
#define STALLSCOPE_NEAR_POLICY_H

#include <stdbool.h>
#include <stdint.h>

enum { POLICY_NO_LINE = 64 };

struct policy_site {
  uintptr_t address;  // 0 in an empty entry
  uint8_t line;       // POLICY_NO_LINE: large blocks go where malloc puts them
  uint8_t step;
  uint8_t packed;
  uint32_t made;  // large blocks so far
  void* newest;   // small block of this site; read and written by all threads, and only a hint
};

// Reads the file. When anything in it is wrong, says so on standard error and there is no policy: a
// program must run whatever its policy is.
void policy_read(const char* path);

// Whether any site is to be placed.
bool policy_exists(void);

// The line where the next large block of a site begins. Any thread.
unsigned policy_next_line(struct policy_site* site);

// The site with this return address; NULL for most. Any thread, once policy_read is done.
struct policy_site* policy_find(const void* address);

#endif
