// SPDX-License-Identifier: Apache-2.0
// Watched memory of a native run, from inside: what the parts of the library offer each other, and
// the log that they leave.
#ifndef STALLSCOPE_WATCH_H
#define STALLSCOPE_WATCH_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

#define WATCH_MAGIC 0x3148435441575353ull
#define WATCH_ENTRIES 20000
#define WATCH_PATH 12
#define WATCH_RANGES 65536

#define WATCH_SNAPSHOT 4096  // bytes of a range
#define WATCH_REGISTERS 17

enum { WATCH_READS = 1, WATCH_WRITES = 2, WATCH_BOTH = 3, WATCH_KERNEL = 4 };

struct watch_entry {
  uint64_t time;  // nanoseconds since the start
  uint64_t ip;    // of breakpoints: behind the instruction
  uint64_t address;
  uint64_t value;   // the first eight bytes of the range, afterwards
  uint64_t caller;  // who made the block that was overrun; 0 otherwise
  uint32_t watch, kind, thread, calls;
  uint64_t path[WATCH_PATH];  // return addresses
  uint64_t ready;             // number of the entry plus 1, once all of it is there
};

// Of the entry of the same number; in a file of its own, which grows as it is filled.
struct watch_snapshot {
  uint64_t bytes;
  uint64_t registers[WATCH_REGISTERS];  // rax rbx rcx rdx rsi rdi rbp rsp r8..r15 rip
  uint8_t data[WATCH_SNAPSHOT];
};

struct watch_log {
  uint64_t magic, entries, hits, false_hits, ranges, refused, mode, stop;
  uint64_t condition, operand;  // a letter: = ! < > or 0
  // A process that reads entries while they are made, our parent; 0 for nobody. Then the log is a
  // ring, and who has no room waits. With `wait` a thread goes on when its entry was read.
  uint64_t reader, wait, read;
  struct watch_entry entry[WATCH_ENTRIES];
};

enum { WATCH_MODE_NONE, WATCH_MODE_BREAKPOINTS, WATCH_MODE_PAGES, WATCH_MODE_GUARDS };

struct watch_range {
  uint64_t start, end;
  uint32_t watch, kind;
};

extern struct watch_log* watch_log;
extern struct watch_range watch_ranges[WATCH_RANGES];
extern uint32_t watch_count;

// watch.c: into the log, when the condition holds.
void watch_hit(const struct watch_range* range, uint64_t address, uint32_t kind, uint64_t caller,
               const void* context);
uint64_t watch_value(uint64_t address, uint64_t bytes);

// pages.c: protects the pages of all ranges. False: the kernel does not let us.
bool watch_pages(void);

// past.c: blocks that end where a page does, and protected pages behind.
extern uint32_t past_watch, past_kind;
extern bool past_on;
bool past_fault(uint64_t address, bool writes, void* context);
void past_stepped(void);
bool past_stepping(void);

#endif
