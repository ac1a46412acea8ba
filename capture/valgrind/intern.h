/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A table from 64-bit hashes to numbers. The hash stands for the whole key: with a million keys the
   chance that two share one is below 1 in 30 million. */
#ifndef STALLSCOPE_INTERN_H
#define STALLSCOPE_INTERN_H

#include "pub_tool_basics.h"

struct ss_intern {
  ULong* hashes; /* 0 for an empty slot */
  UInt* numbers;
  UWord slots, used;
};

/* The number kept for `hash`, or `*fresh` = True and a place to keep a new one. */
UInt* ss_intern(struct ss_intern* table, ULong hash, Bool* fresh);
ULong ss_hash(ULong seed, const void* data, UWord bytes);

#endif
