// SPDX-License-Identifier: Apache-2.0
// A page log on disk: a header of a page, then entries. Written by the tracker in the target, read
// by the recorder when the target has ended.
#ifndef STALLSCOPE_PAGES_LAYOUT_H
#define STALLSCOPE_PAGES_LAYOUT_H

#include <stdint.h>

#define PAGE_LOG_MAGIC 0x31474f4c45474150u
#define PAGE_SIZE 4096u
#define LOG_WINDOW (16u << 20)  // bytes that are mapped at a time

// What an entry is.
enum { ENTRY_READ = 0, ENTRY_WRITE = 1, ENTRY_REGION = 2 };

struct entry {
  uint64_t ticks;   // of the time stamp counter
  uint64_t number;  // of the page; of a region its first page
  uint32_t thread;  // the kernel's number; of a region its pages
  uint32_t kind;    // of a region, its kind in bits 8 and up
};

struct header {
  uint64_t magic, version;
  uint64_t entries;  // in the file
  uint64_t lost;     // the file could not grow
  uint64_t faults,
      soft_faults;  // on pages outside the active set; on pages asked about
  uint64_t calls;   // system calls that were looked at
  uint64_t active;  // pages of the active set
  uint64_t begin_ticks, begin_ns;
  uint64_t end_ticks, end_ns;  // of the last fault
  uint64_t dispatch;           // 1: the kernel told of system calls
};

enum { REGION_MAPPING = 0, REGION_HEAP = 1, REGION_STATIC = 2 };

#endif
