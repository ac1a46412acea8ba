// SPDX-License-Identifier: Apache-2.0
// The memory that the prefetch runtime shares with stallscope, which runs beside the program: this
// header at its start, then code and data that stallscope writes. src/stallscope/actions/region.py
// has the same.
#ifndef STALLSCOPE_AHEAD_LAYOUT_H
#define STALLSCOPE_AHEAD_LAYOUT_H

#include <stdint.h>

#define AHEAD_MAGIC 0x3144414548415353u  // "SSAHEAD1"
#define AHEAD_SIZE (4u << 20)
#define AHEAD_VIEWS 2
#define AHEAD_NETS 512
#define AHEAD_SLOTS 8
#define AHEAD_CELLS 96

// Code in which a fault is expected: control goes on at the landing.
struct ahead_net {
  uint64_t begin, end, landing;
};

// Memory at a fixed address that a slice keeps a copy of, filled when it starts. Registers by
// their numbers, -1 for none.
struct ahead_cell {
  int32_t base, index;
  uint32_t scale, size;
  int64_t displacement;
  uint64_t place;  // address
};

// One slice. The program's code takes `want` back to 0 when it hands its registers over, and then
// sets `handed`; the assist thread sets `want` when it has nothing to do.
struct ahead_slot {
  uint32_t armed, want, handed, cell_count;
  uint32_t chunk, slack, pause, unused;
  uint64_t runs;                 // of the load, by the program
  uint64_t at_hand;              // runs when registers were handed over
  uint64_t enter, start, leave;  // addresses of the slice's code
  uint64_t data;                 // address of its block of data
  uint64_t hand[16];
  uint64_t visits, ahead_runs, faults, behind, pauses, off;  // what the assist thread did
  struct ahead_cell cells[AHEAD_CELLS];
};

struct ahead_region {
  uint64_t magic;
  uint32_t owner, assist;       // process ids; 0: none yet
  uint64_t views[AHEAD_VIEWS];  // where the program has it: near itself, and near its libraries
  uint32_t stop, net_count;
  uint64_t caught;  // faults in inline code
  uint32_t calls;   // what the assist thread sleeps on; counted up to wake it
  uint32_t unused;
  struct ahead_net nets[AHEAD_NETS];
  struct ahead_slot slots[AHEAD_SLOTS];
};

// Offsets in a slice's block of data; src/stallscope/slicing/emit.py has the same.
#define DATA_REGISTERS 0
#define DATA_LEFT 128
#define DATA_REASON 144
#define DATA_RESUME 152
#define DATA_FLAGS 160
#define REASON_OFF 0
#define REASON_CHUNK 1
#define REASON_FAULT 2

extern struct ahead_region* ahead;

void ahead_catch_faults(void);
void ahead_start_assist(void);

#endif
