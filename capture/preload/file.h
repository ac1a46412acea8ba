// SPDX-License-Identifier: Apache-2.0
// The log as a file: made once for each process image, mapped, and made ready part by part.
#pragma once

#include <stdbool.h>
#include <stdint.h>

// Makes FOLDER/PID.N, with FOLDER from STALLSCOPE_HEAP_LOG, and maps it. The header is written.
// NULL when no log is wanted or none can be made.
char* file_make(uint64_t* bytes);

// In a child: gives up the mapping of the parent's file, and remembers whose it was.
void file_leave(char* base, uint64_t bytes);

// See log_ready.
bool file_ready(uint64_t begin, uint64_t bytes);
