/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Threads: numbers that are never used again, turns, names. */
#include "lines.h"
#include "pub_tool_clientstate.h"
#include "pub_tool_libcassert.h"
#include "pub_tool_libcbase.h"
#include "pub_tool_libcfile.h"
#include "pub_tool_libcprint.h"
#include "pub_tool_libcproc.h"
#include "pub_tool_machine.h"
#include "pub_tool_mallocfree.h"
#include "pub_tool_threadstate.h"
#include "pub_tool_tooliface.h"
#include "pub_tool_vkiscnums.h"
#include "tool.h"

/* Offset of the event counter in the guest state: generated code counts it down at every block and
   gives the processor back at zero. */
#define EVENT_COUNTER_OFFSET 8
#define PR_SET_NAME 15
#define NAME_BYTES 16

struct thread {
  UInt number;
  UInt parent;
  Int lwp;
  Addr joined_at;         /* the kernel clears this word when the thread ends; joiners wait on it */
  HChar name[NAME_BYTES]; /* last one emitted */
};
static struct thread* threads = NULL; /* by ThreadId */
static UInt last_number = 0;
static UInt running = 0; /* number of the thread whose records follow */
static Bool several = False;
static Addr next_joined_at = 0; /* of the thread that is about to be created */

UInt ss_thread(ThreadId tid) { return tid < VG_N_THREADS ? threads[tid].number : 0; }

Addr ss_thread_joined_at(ThreadId tid) { return threads[tid].joined_at; }

void ss_thread_will_be_joined_at(Addr word) { next_joined_at = word; }

UInt ss_current_thread(void) { return running; }

static void emit_name(struct thread* thread, const HChar* name) {
  if (VG_(strncmp)(thread->name, name, NAME_BYTES - 1) == 0) return;
  VG_(strncpy)(thread->name, name, NAME_BYTES - 1);
  thread->name[NAME_BYTES - 1] = 0;
  ss_emit_tail(SS_THREAD_NAME, thread->number, NULL, 0, thread->name, VG_(strlen)(thread->name));
}

/* The kernel knows the name whoever set it and however. */
static void emit_kernel_name(struct thread* thread) {
  HChar path[64], name[NAME_BYTES + 1];
  VG_(sprintf)(path, "/proc/self/task/%d/comm", thread->lwp);
  SysRes res = VG_(open)(path, VKI_O_RDONLY, 0);
  if (sr_isError(res)) return;
  Int length = VG_(read)(sr_Res(res), name, NAME_BYTES);
  VG_(close)(sr_Res(res));
  if (length <= 0) return;
  name[length] = 0;
  if (name[length - 1] == '\n') name[length - 1] = 0;
  emit_name(thread, name);
}

void ss_thread_renamed(ThreadId tid, const HChar* name) { emit_name(&threads[tid], name); }

void ss_threads_names(void) {
  for (ThreadId tid = 1; tid < VG_N_THREADS; tid++)
    if (threads[tid].number && threads[tid].lwp) emit_kernel_name(&threads[tid]);
}

static void created(ThreadId parent, ThreadId child) {
  VG_(memset)(&threads[child], 0, sizeof threads[child]);
  threads[child].number = ++last_number;
  threads[child].joined_at = next_joined_at;
  threads[child].parent = parent < VG_N_THREADS ? threads[parent].number : 0;
  several = several || last_number > 1;
}

static void emit_start(ThreadId tid) {
  struct thread* thread = &threads[tid];
  ss_word fields[] = {thread->parent, thread->lwp, VG_(get_SP)(tid)};
  ss_emit(SS_THREAD_START, thread->number, fields, 3);
}

static const HChar* base_name(const HChar* path) {
  const HChar* slash = VG_(strrchr)(path, '/');
  return slash ? slash + 1 : path;
}

/* Natively the main thread's name is that of the program file, here that of the tool. */
static void name_main_thread(void) {
  HChar name[NAME_BYTES];
  VG_(strncpy)(name, base_name(VG_(args_the_exename)), NAME_BYTES - 1);
  name[NAME_BYTES - 1] = 0;
  VG_(do_syscall)(__NR_prctl, PR_SET_NAME, (UWord)name, 0, 0, 0, 0, 0, 0);
}

static void first_instruction(ThreadId tid) {
  threads[tid].lwp = VG_(gettid)();
  emit_start(tid);
  if (threads[tid].parent == 0) name_main_thread();
  emit_kernel_name(&threads[tid]);
}

static void exiting(ThreadId tid) {
  if (!threads[tid].number) return;
  if (threads[tid].lwp) {
    emit_kernel_name(&threads[tid]);
    ss_emit(SS_THREAD_EXIT, threads[tid].number, NULL, 0);
  }
  threads[tid].number = 0;
}

/* Once there are two threads, turns are short, so that threads which run together are seen to, and
   long enough to respect every lock: the target itself runs in this order. */
static void shorten_turn(ThreadId tid) {
  ULong both;
  VG_(get_shadow_regs_area)(tid, (UChar*)&both, 0, EVENT_COUNTER_OFFSET, 4);
  UInt left = (UInt)both;
  if (left <= ss_options.turn) return;
  left = ss_options.turn;
  VG_(set_shadow_regs_area)(tid, 0, EVENT_COUNTER_OFFSET, 4, (const UChar*)&left);
}

static void client_code_starts(ThreadId tid, ULong blocks) {
  ss_measure_hide(ss_lines_are_told(tid));
  if (several) shorten_turn(tid);
  if (threads[tid].number == running) return;
  running = threads[tid].number;
  ss_word now = ss_clock_ns();
  ss_emit(SS_THREAD_SWITCH, running, &now, 1);
}

/* Only the forking thread is in the child; its number stays. */
void ss_threads_after_fork(ThreadId tid) {
  for (ThreadId other = 1; other < VG_N_THREADS; other++)
    if (other != tid) threads[other].number = 0;
  threads[tid].lwp = VG_(gettid)();
  several = False;
  running = threads[tid].number;
}

void ss_threads_init(void) {
  threads = VG_(calloc)("ss.threads", VG_N_THREADS, sizeof *threads);
  VG_(track_pre_thread_ll_create)(created);
  VG_(track_pre_thread_first_insn)(first_instruction);
  VG_(track_pre_thread_ll_exit)(exiting);
  VG_(track_start_client_code)(client_code_starts);
}
