/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The capture tool: what its parts offer each other. It emits records, and computes nothing but
   what the engine would, when that falls behind (sift.c).
   Valgrind runs one thread at a time under its big lock, so nothing here is locked. */
#ifndef STALLSCOPE_TOOL_H
#define STALLSCOPE_TOOL_H

#include "pub_tool_basics.h"
#include "pub_tool_vki.h"
#include "stallscope_records.h"

/* Of Valgrind's core, exported by libcoregrind but not by the tool headers. */
extern SysRes VG_(am_shared_mmap_file_float_valgrind)(SizeT length, UInt prot, Int fd,
                                                      Off64T offset);
extern SysRes VG_(do_syscall)(UWord number, RegWord, RegWord, RegWord, RegWord, RegWord, RegWord,
                              RegWord, RegWord);
extern Int VG_(safe_fd)(Int fd);
extern Int VG_(fcntl)(Int fd, Int cmd, Addr arg);

struct ss_options {
  const HChar* folder; /* where the recorder waits for rings */
  Long skip;           /* instructions before measuring starts */
  Long max;            /* instructions to measure, 0 for all */
  const HChar* from;   /* function whose entry starts measuring */
  const HChar* to;     /* function whose entry stops it */
  UInt turn;           /* blocks a thread runs before the next one may */
  Bool stream;         /* block executions and addresses go through the ring */
  Bool values;         /* ... with what was read or written */
  Bool children;       /* follow forks */
  Bool heap;           /* tell of heap blocks */
  const HChar* watch;  /* file that says what memory is watched; NULL for none */
  const HChar* sift;   /* how, when the recorder falls behind; NULL for never */
};
extern struct ss_options ss_options;

/* ring.c: the shared memory. `ss_ring` never moves, not even in a forked child, because generated
   code has its address built in. */
extern struct ss_ring* ss_ring;
void ss_ring_open(void);        /* at start-up; ends the process with a message when it cannot */
void ss_ring_before_fork(void); /* publishes, and remembers what the child goes on from */
void ss_ring_reopen(void);      /* in a forked child: a ring of its own at the same address */
void ss_ring_detach(void);      /* from here on everything is written into the void */
Bool ss_ring_attached(void);
void ss_ring_publish(void);           /* hand over what is written so far */
ss_word* ss_ring_reserve(UInt words); /* room for a record; 0 < words < a buffer */
void ss_ring_commit(const ss_word* end);
void ss_ring_end(void);         /* no record follows */
void ss_ring_next_buffer(void); /* called by generated code when `position` is past `limit` */
void ss_ring_park(void);        /* measuring off: generated code writes into the void */
void ss_ring_unpark(void);      /* measuring on */
Bool ss_ring_more_counters(ULong exits);
ULong ss_clock_ns(void);

/* emit.c: one record into the ring. `words` are the fields behind head and `when`. */
void ss_emit(UInt tag, UInt thread, const ss_word* fields, UInt count);
void ss_emit_tail(UInt tag, UInt thread, const ss_word* fields, UInt count, const void* tail,
                  UInt bytes);
void ss_note(const HChar* text);

/* threads.c */
UInt ss_thread(ThreadId tid); /* our number of a thread: never used again, 0 if there is none */
UInt ss_current_thread(void);
void ss_threads_init(void);
void ss_threads_after_fork(ThreadId tid);
void ss_threads_names(void); /* emit the names that threads have now */
Addr ss_thread_joined_at(ThreadId tid);
void ss_thread_will_be_joined_at(Addr word); /* said before a thread is created */
void ss_thread_renamed(ThreadId tid, const HChar* name);

/* memory.c: mappings; allocations.c: heap blocks; syscalls.c: exec, futex, names, waits */
void ss_memory_init(void);
Bool ss_in_preload(Addr address);
/* The number of a call path, innermost first; told in the stream when it is new. */
UInt ss_site(UInt thread, const Addr* frames, UInt count);
Bool ss_allocation_request(ThreadId tid, UWord* args, UWord* result);
void ss_syscalls_init(void);
void ss_syscalls_options_read(void);
#define SS_ENDED_BY_SIGNAL 256
Int ss_exit_code(void); /* as given to exit, else SS_ENDED_BY_SIGNAL */

/* precision.c: exact registers for handlers of faults; the action as the target gave it */
void ss_precision_init(void);
void ss_precision_handler(UWord signal, const struct vki_sigaction_base* action);

/* measure.c: switching measuring on and off */
void ss_measure_init(void);
void ss_measure(Bool on, UInt mark);
void ss_measure_hide(Bool hide); /* what runs now is not the program's own */
void ss_name_block(Addr address, UWord size, const HChar* name);
Bool ss_measuring(void);
ULong ss_measured(void); /* instructions measured so far: the `when` of records */
Bool ss_measure_request(ThreadId tid, UWord* args, UWord* result);
void ss_measure_limit(void); /* called by generated code when `executed` reaches `stop_at` */
void ss_measure_from(void);  /* called by generated code at the entry of --from */
void ss_measure_to(void);    /* called by generated code at the entry of --to */

/* watch.c: accesses to chosen memory, with what it holds afterwards */
extern ss_word ss_watch_waiting; /* hits that are not told yet */
void ss_watch_init(void);
void ss_watch_mapped(Addr address, ULong offset, const HChar* path);
VG_REGPARM(3) void ss_watch_access(Addr address, UWord what, Addr code);
void ss_watch_flush(void);
void ss_watch_end(void);
void ss_finish(Int unused); /* tool.c: the last records */

/* blocks.c: what a superblock holds; instrument.c: the generated code */
#define SS_MAX_INSTRUCTIONS 256
#define SS_MAX_OPERATIONS 500
#define SS_INSTRUCTION(address, length, speculative) \
  ((ULong)(address) | (ULong)(length) << 48 | (ULong)(speculative) << 56)
#define SS_INSTRUCTION_ADDRESS(word) ((Addr)((word)&0xffffffffffffULL))
#define SS_INSTRUCTION_LENGTH(word) ((UInt)((word) >> 48 & 31))

struct ss_operation {
  UShort instruction;
  UChar kind;
  UChar guarded;
  UInt size;
};
struct ss_exit {
  UInt instructions;
  UInt operations;
};
struct ss_block_shape {
  Addr address;
  UInt instructions, operations, exits;
  ULong instruction[SS_MAX_INSTRUCTIONS]; /* as in the `block` record */
  struct ss_operation operation[SS_MAX_OPERATIONS];
  struct ss_exit exit[SS_MAX_INSTRUCTIONS];
};
/* The number of the block's first exit; the block is defined in the stream when it is new. */
UInt ss_block_number(const struct ss_block_shape* shape);

/* sift.c: filters what goes into the ring */
void ss_sift_init(void);
void ss_sift_define(const struct ss_block_shape* shape); /* a new block */
Bool ss_sift_wanted(void);
/* What a stretch becomes, no more words than it had; valid until the next one. `taken` counts what
   the reader does not see any more, by exit. */
const ss_word* ss_sift(const ss_word* from, ULong* words, ss_word* taken);
void ss_sift_passed_by(void); /* blocks went into the ring unsifted */
void ss_hand_over(ss_word* to, const ss_word* from, ULong words);

#endif
