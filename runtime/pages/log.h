// SPDX-License-Identifier: Apache-2.0
// The page log of this process. Callers hold the tracker's lock; nothing here allocates.
#ifndef STALLSCOPE_PAGES_LOG_H
#define STALLSCOPE_PAGES_LOG_H

#include "layout.h"

extern struct header* page_log;  // NULL: there is none

// Creates a file in the folder, PID.IMAGE: a process may become another program. 0 when that works.
int open_log(const char* folder, uint64_t active);
// A log that cannot grow counts what is lost.
void add_entry(uint64_t number, uint32_t thread, uint32_t kind);

#endif
