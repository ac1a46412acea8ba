/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Start, options, fork, end. */
#include "tool.h"

#include "instrument.h"
#include "pub_tool_clientstate.h"
#include "pub_tool_libcassert.h"
#include "pub_tool_libcbase.h"
#include "pub_tool_libcprint.h"
#include "pub_tool_libcproc.h"
#include "pub_tool_mallocfree.h"
#include "pub_tool_options.h"
#include "pub_tool_tooliface.h"
#include "pub_tool_xarray.h"

#define MAX_COMMAND_BYTES 16384

struct ss_options ss_options = {.turn = 2000, .children = True, .heap = True};

static ss_word fork_token = 0; /* of the last fork; the child names it */
static UInt forks = 0;

static UInt append_string(HChar* to, UInt at, const HChar* text) {
  UInt length = VG_(strlen)(text) + 1;
  if (at + length > MAX_COMMAND_BYTES) return at;
  VG_(memcpy)(to + at, text, length);
  return at + length;
}

static void emit_process_start(ULong token) {
  static HChar command[MAX_COMMAND_BYTES];
  UInt bytes = append_string(command, 0, VG_(args_the_exename));
  for (Word i = 0; i < VG_(sizeXA)(VG_(args_for_client)); i++)
    bytes = append_string(command, bytes, *(HChar**)VG_(indexXA)(VG_(args_for_client), i));
  ss_word fields[] = {VG_(getpid)(), VG_(getppid)(), token, ss_clock_ns()};
  ss_emit_tail(SS_PROCESS_START, ss_current_thread(), fields, 4, command, bytes);
}

static void before_fork(ThreadId tid) {
  fork_token = ((ULong)VG_(getpid)() << 32) | ++forks;
  ss_emit(SS_FORK, ss_thread(tid), &fork_token, 1);
  ss_ring_before_fork();
}

static void in_child(ThreadId tid) {
  ss_ring_reopen();
  ss_threads_after_fork(tid);
  emit_process_start(fork_token);
}

/* Statements of Valgrind's code that a loop may have once it is unrolled, up to eight times. */
#define UNROLLED 400

static void after_options(void) {
  if (ss_options.folder == NULL) VG_(fmsg_bad_option)("--ss-folder", "is missing\n");
  /* A function that measuring starts or stops at must begin a block. */
  const Bool in_part = ss_options.from || ss_options.to || ss_options.skip || ss_options.max;
  if (ss_options.from || ss_options.to) VG_(clo_vex_control).guest_chase = False;
  /* Where accesses are only counted nobody sees the blocks: small loops become long ones, which
     have less to say for each access. */
  if (ss_options.sift && !in_part) VG_(clo_vex_control).iropt_unroll_thresh = UNROLLED;
  ss_syscalls_options_read();
  ss_sift_init();
  ss_watch_init();
  ss_ring_open();
  emit_process_start(0);
  ss_measure_init();
  VG_(atfork)(before_fork, NULL, in_child);
}

static Bool option(const HChar* arg) {
  if VG_STR_CLO (arg, "--ss-folder", ss_options.folder) {
  } else if VG_STR_CLO (arg, "--ss-from", ss_options.from) {
  } else if VG_STR_CLO (arg, "--ss-to", ss_options.to) {
  } else if VG_INT_CLO (arg, "--ss-skip", ss_options.skip) {
  } else if VG_INT_CLO (arg, "--ss-max", ss_options.max) {
  } else if VG_BINT_CLO (arg, "--ss-turn", ss_options.turn, 1, 100000) {
  } else if VG_BOOL_CLO (arg, "--ss-stream", ss_options.stream) {
  } else if VG_BOOL_CLO (arg, "--ss-values", ss_options.values) {
  } else if VG_BOOL_CLO (arg, "--ss-children", ss_options.children) {
  } else if VG_BOOL_CLO (arg, "--ss-heap", ss_options.heap) {
  } else if VG_STR_CLO (arg, "--ss-sift", ss_options.sift) {
  } else if VG_STR_CLO (arg, "--ss-watch", ss_options.watch) {
  } else
    return False;
  return True;
}

static void usage(void) {
  VG_(printf)("    started by stallscope record; its options are described there\n");
}

static void debug_usage(void) { VG_(printf)("    (none)\n"); }

static Bool request(ThreadId tid, UWord* args, UWord* result) {
  return ss_allocation_request(tid, args, result) || ss_measure_request(tid, args, result);
}

void ss_finish(Int unused) {
  ss_watch_end();
  ss_threads_names();
  ss_word fields[] = {ss_exit_code(), ss_clock_ns()};
  ss_emit(SS_PROCESS_END, ss_current_thread(), fields, 2);
  ss_ring_end();
}

static void before_options(void) {
  VG_(details_name)("stallscope");
  VG_(details_version)(NULL);
  VG_(details_description)("the capture tool of Stallscope");
  VG_(details_copyright_author)("Copyright (C) 2026, and GNU GPL'd, by the Stallscope authors.");
  VG_(details_bug_reports_to)("the Stallscope project");
  VG_(details_avg_translation_sizeB)(400);

  VG_(basic_tool_funcs)(after_options, ss_instrument, ss_finish);
  VG_(needs_command_line_options)(option, usage, debug_usage);
  VG_(needs_client_requests)(request);

  VG_(clo_vex_control).iropt_unroll_thresh = 0;

  ss_precision_init();
  ss_threads_init();
  ss_memory_init();
  ss_syscalls_init();
}

VG_DETERMINE_INTERFACE_VERSION(before_options)
