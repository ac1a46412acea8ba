// SPDX-License-Identifier: Apache-2.0
// The allocation log of one process image: a sparse file that the preload library maps shared and
// writes, and that the engine reads while the program runs and after it. Declared once, here.
//
// Blocks are told by marks: two bytes for every 16 bytes of address space (a granule), kept only
// for those regions of 256 KiB where the program's heap is. The mark of the granule where a block
// begins is the number of its site; the mark after it is HEAP_LOG_IS_SIZE | its size. free() adds
// HEAP_LOG_FREED to the first one: who asks may ask about a moment ago. So whoever wants to know
// which block holds an address walks back to the nearest mark of a site that is not freed, and if
// that block ends before, to the nearest freed one. A block too small for two granules has one mark
// only.
//
// A large block's first mark is HEAP_LOG_LARGE, and the mark after it holds HEAP_LOG_IS_SIZE | its
// place in the list of live large blocks. Births and deaths of large blocks are also written into
// a ring of their thread.
//
// A thread that makes and frees small blocks too fast lets most of them pass: they get no marks,
// and those of blocks that it frees stay. Chunks of 1 KiB where it freed something are told by a
// byte each, in a table that exists from then on: in them, and only in them, a mark may be of a
// block that is gone. Blocks without a mark may be anywhere by then.
#ifndef STALLSCOPE_HEAP_LOG_LAYOUT_H
#define STALLSCOPE_HEAP_LOG_LAYOUT_H

#include <stdint.h>

#define HEAP_LOG_MAGIC 0x31676c7061656873u  // "sheaplg1"

enum {
  HEAP_LOG_VERSION = 3,
  HEAP_LOG_PAGE = 4096,
  HEAP_LOG_FRAMES = 16,
  HEAP_LOG_SITES = 0x3fff,     // sites are 1 .. HEAP_LOG_SITES - 1
  HEAP_LOG_LARGE = 0x3fff,     // as a mark
  HEAP_LOG_FREED = 0x4000,     // as a bit of a mark
  HEAP_LOG_IS_SIZE = 0x8000,   // as a bit of a mark
  HEAP_LOG_SMALL = 0x8000,     // blocks of fewer bytes are small
  HEAP_LOG_UNKNOWN_SITE = 1,   // of blocks that were seen, but whose path was not
  HEAP_LOG_REGION_SHIFT = 18,  // address space that one table of marks covers
  HEAP_LOG_REGIONS = 1 << 18,
  HEAP_LOG_LIVE = 1 << 15,  // large blocks alive at once
  HEAP_LOG_SLOTS = 1024,    // threads alive at once
  HEAP_LOG_RING = 1024,     // records in a thread's ring
  HEAP_LOG_HOT = 512,       // paths that a thread keeps at hand
  HEAP_LOG_NEAR = 512,      // regions that a thread keeps at hand
  HEAP_LOG_CHUNK_SHIFT = 10,
  HEAP_LOG_CHUNKS = 1 << 20,  // bytes of the table; chunks 1 GiB apart share one
};

// A chunk's byte. From HEAP_LOG_HAS_LARGE on, it counts the large blocks that begin there, and what
// is freed there is never let pass; HEAP_LOG_KEPT counts no more.
enum { HEAP_LOG_CLEAN = 0, HEAP_LOG_STALE = 1, HEAP_LOG_HAS_LARGE = 2, HEAP_LOG_KEPT = 255 };

struct heap_log_header {
  uint64_t magic;
  uint32_t version;
  uint32_t is_ready;  // 0 while the file is being made
  uint64_t file_bytes;
  uint64_t begun;  // ns of CLOCK_MONOTONIC
  uint32_t pid, number;
  uint32_t parent_pid, parent_number;  // of the image that forked this one; 0, 0 for none
  uint32_t sites;                      // numbers given so far; 0 is never given
  uint32_t regions;                    // tables of marks in use
  uint32_t slots;                      // threads' places ever used
  uint32_t live;                       // places ever used in the list of large blocks
  uint32_t live_version;               // grows whenever that list changes
  uint32_t has_one_granule_blocks;
  uint64_t without_mark;    // blocks with no table for their marks
  uint64_t without_site;    // blocks whose path was not found
  uint64_t without_thread;  // blocks made by threads that found no place
  uint64_t without_record;  // births and deaths of large blocks that found their ring full
  uint64_t without_live;    // large blocks that found no place in the list
  uint64_t unwound;         // stacks that were unwound
  uint64_t walked;          // paths that were found by walking frames of known size
  uint64_t sampled_since;   // ns of CLOCK_MONOTONIC at which a thread first let blocks pass; or 0
  uint64_t passed;          // blocks that were let pass
};

struct heap_log_site {
  uint32_t depth, reserved;
  uint64_t blocks, bytes;  // without those in the threads' hot paths; estimates once some passed
  uint64_t frames[HEAP_LOG_FRAMES];  // return addresses, innermost first
};

struct heap_log_live {
  uint64_t address;  // 0 in an empty place
  uint64_t size;
  uint64_t born;  // ns of CLOCK_MONOTONIC
  uint32_t site, thread;
};

enum heap_log_kind { HEAP_LOG_BORN = 1, HEAP_LOG_DIED = 2 };

struct heap_log_record {
  uint64_t time;  // ns of CLOCK_MONOTONIC
  uint64_t address, size;
  uint32_t site, thread;
  uint32_t kind, reserved;
};

// A path that was found at one height of the stack. The return addresses at slot, slot + offset[0],
// and so on, xored, are `check`.
struct heap_log_hot {
  uint64_t slot;
  uint64_t check;
  uint32_t offset[3];
  uint32_t mark;  // site | HEAP_LOG_IS_SIZE << 16
  uint64_t blocks, bytes;
  uint64_t unused[2];
};

struct heap_log_slot {
  struct heap_log_hot hot[HEAP_LOG_HOT];
  // The writer's own: which regions it knows, and where their marks are.
  uint64_t near_region[HEAP_LOG_NEAR];
  uint64_t near_marks[HEAP_LOG_NEAR];
  uint32_t thread;  // 0 in a free place
  uint32_t has_ring;
  uint64_t written;  // records so far; the newest HEAP_LOG_RING are in the ring
  uint64_t taken;    // records that the reader has taken
  uint64_t stack_end;
  uint8_t unused[HEAP_LOG_PAGE - 32];
  struct heap_log_record ring[HEAP_LOG_RING];
};

#define HEAP_LOG_REGION_MARKS (1u << (HEAP_LOG_REGION_SHIFT - 4))
// With a line behind the marks: a block may begin in the last granule, and its size is behind it.
#define HEAP_LOG_TABLE_BYTES (2u * HEAP_LOG_REGION_MARKS + 64)
#define HEAP_LOG_PAGES_OF(bytes) \
  (((uint64_t)(bytes) + HEAP_LOG_PAGE - 1) / HEAP_LOG_PAGE * HEAP_LOG_PAGE)

// Where the parts begin.
#define HEAP_LOG_REGIONS_AT ((uint64_t)HEAP_LOG_PAGE)
#define HEAP_LOG_SITES_AT (HEAP_LOG_REGIONS_AT + HEAP_LOG_PAGES_OF(4u * HEAP_LOG_REGIONS))
#define HEAP_LOG_LIVE_AT \
  (HEAP_LOG_SITES_AT + HEAP_LOG_PAGES_OF(HEAP_LOG_SITES * sizeof(struct heap_log_site)))
#define HEAP_LOG_SLOTS_AT \
  (HEAP_LOG_LIVE_AT + HEAP_LOG_PAGES_OF(HEAP_LOG_LIVE * sizeof(struct heap_log_live)))
#define HEAP_LOG_CHUNKS_AT \
  (HEAP_LOG_SLOTS_AT + (uint64_t)HEAP_LOG_SLOTS * sizeof(struct heap_log_slot))
#define HEAP_LOG_TABLES_AT (HEAP_LOG_CHUNKS_AT + HEAP_LOG_CHUNKS)
#define HEAP_LOG_FULL_BYTES (HEAP_LOG_TABLES_AT + (uint64_t)HEAP_LOG_REGIONS * HEAP_LOG_TABLE_BYTES)

#endif
