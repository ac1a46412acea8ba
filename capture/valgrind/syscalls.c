/* SPDX-License-Identifier: GPL-2.0-or-later */
/* System calls that order threads, replace the image, rename a thread or wait for a child. */
#include "lines.h"
#include "pub_tool_aspacemgr.h"
#include "pub_tool_libcbase.h"
#include "pub_tool_libcfile.h"
#include "pub_tool_libcprint.h"
#include "pub_tool_libcproc.h"
#include "pub_tool_tooliface.h"
#include "pub_tool_vkiscnums.h"
#include "tool.h"

#define PR_SET_NAME 15
#define CLONE_CHILD_CLEARTID 0x00200000
#define FUTEX_COMMAND_MASK 127 /* without PRIVATE and CLOCK_REALTIME */
#define FUTEX_WAIT 0
#define FUTEX_WAKE 1
#define FUTEX_REQUEUE 3
#define FUTEX_CMP_REQUEUE 4
#define FUTEX_WAKE_OP 5
#define FUTEX_LOCK_PI 6
#define FUTEX_UNLOCK_PI 7
#define FUTEX_WAIT_BITSET 9
#define FUTEX_WAKE_BITSET 10

/* The core's own, not offered to tools. */
extern Bool VG_(clo_trace_children);
static Bool follows_children;

void ss_syscalls_options_read(void) { follows_children = VG_(clo_trace_children); }

/* Valgrind does not tell its tools how the program ends. */
static Int exit_code = SS_ENDED_BY_SIGNAL;

Int ss_exit_code(void) { return exit_code; }

static Bool waits(UWord op) {
  op &= FUTEX_COMMAND_MASK;
  return op == FUTEX_WAIT || op == FUTEX_WAIT_BITSET || op == FUTEX_LOCK_PI;
}

static Bool wakes(UWord op) {
  op &= FUTEX_COMMAND_MASK;
  return op == FUTEX_WAKE || op == FUTEX_WAKE_BITSET || op == FUTEX_REQUEUE ||
         op == FUTEX_CMP_REQUEUE || op == FUTEX_WAKE_OP || op == FUTEX_UNLOCK_PI;
}

static void sync_mark(ThreadId tid, UInt kind, Addr address, UWord value) {
  ss_word fields[] = {kind, address, value};
  ss_emit(SS_SYNC, ss_thread(tid), fields, 3);
}

/* Valgrind refuses to follow an executable that changes the user, and with it the exec: such a
   program runs as it does without us, and a file in the session's folder says so. */
static Bool changes_user(const HChar* path) {
  struct vg_stat facts;
  return !sr_isError(VG_(stat)(path, &facts)) && (facts.mode & (VKI_S_ISUID | VKI_S_ISGID)) != 0;
}

static void note_unrecorded(const HChar* program) {
  HChar path[512];
  VG_(snprintf)(path, sizeof path, "%s/unrecorded-%d", ss_options.folder, VG_(getpid)());
  SysRes file = VG_(open)(path, VKI_O_WRONLY | VKI_O_CREAT | VKI_O_EXCL, 0600);
  if (sr_isError(file)) return;
  VG_(write)(sr_Res(file), program, VG_(strlen)(program));
  VG_(close)(sr_Res(file));
}

static void before_exec(ThreadId tid, const HChar* path) {
  ss_threads_names();
  if (!VG_(am_is_valid_for_client)((Addr)path, 1, VKI_PROT_READ)) path = "";
  if (follows_children && changes_user(path)) {
    note_unrecorded(path);
    VG_(clo_trace_children) = False;
  }
  ss_emit_tail(SS_EXEC, ss_thread(tid), NULL, 0, path, VG_(strlen)(path));
  ss_ring_publish();
}

static void before(ThreadId tid, UInt number, UWord* args, UInt count) {
  switch (number) {
    case __NR_write:
      if (ss_lines_are_told(tid)) ss_lines_hear(tid, (const HChar*)args[1], args[2]);
      break;
    case __NR_futex:
      if (waits(args[1])) sync_mark(tid, SS_SYNC_KIND_FUTEX_WAIT, args[0], args[2]);
      break;
    case __NR_execve:
      before_exec(tid, (const HChar*)args[0]);
      break;
    case __NR_execveat:
      before_exec(tid, (const HChar*)args[1]);
      break;
    case __NR_exit_group:
      exit_code = args[0] & 255;
      break;
    case __NR_exit:
      exit_code = args[0] & 255;
      sync_mark(tid, SS_SYNC_KIND_EXIT, ss_thread_joined_at(tid), args[0]);
      break;
    case __NR_clone:
      ss_thread_will_be_joined_at(args[0] & CLONE_CHILD_CLEARTID ? args[3] : 0);
      sync_mark(tid, SS_SYNC_KIND_CLONE, args[3], args[0]);
      break;
  }
}

static void waited(ThreadId tid, UWord pid, const Int* status) {
  if (pid == 0 || status == NULL) return;
  ss_word fields[] = {pid, (UInt)*status};
  ss_emit(SS_WAIT, ss_thread(tid), fields, 2);
}

static void after(ThreadId tid, UInt number, UWord* args, UInt count, SysRes res) {
  switch (number) {
    case __NR_futex:
      if (waits(args[1])) sync_mark(tid, SS_SYNC_KIND_FUTEX_WOKEN, args[0], sr_isError(res));
      if (wakes(args[1])) sync_mark(tid, SS_SYNC_KIND_FUTEX_WAKE, args[0], sr_Res(res));
      break;
    case __NR_execve:
    case __NR_execveat: {
      ss_word error = sr_Err(res);
      ss_emit(SS_EXEC_FAILED, ss_thread(tid), &error, 1);
      VG_(clo_trace_children) = follows_children;
      break;
    }
    case __NR_rt_sigaction:
      if (!sr_isError(res)) ss_precision_handler(args[0], (const void*)args[1]);
      break;
    case __NR_wait4:
      if (!sr_isError(res)) waited(tid, sr_Res(res), (const Int*)args[1]);
      break;
    case __NR_prctl:
      if (args[0] == PR_SET_NAME && !sr_isError(res)) ss_thread_renamed(tid, (const HChar*)args[1]);
      break;
  }
}

static void signal_entered(ThreadId tid, Int number, Bool alternate_stack) {
  ss_word fields[] = {number, 1};
  ss_emit(SS_SIGNAL, ss_thread(tid), fields, 2);
}

static void signal_left(ThreadId tid, Int number) {
  ss_word fields[] = {number, 0};
  ss_emit(SS_SIGNAL, ss_thread(tid), fields, 2);
}

void ss_syscalls_init(void) {
  VG_(needs_syscall_wrapper)(before, after);
  VG_(track_pre_deliver_signal)(signal_entered);
  VG_(track_post_deliver_signal)(signal_left);
}
