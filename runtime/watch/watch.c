// SPDX-License-Identifier: Apache-2.0
// Preloaded into a native run: reads what is to be watched, sets up to four breakpoints of the
// processor where that is enough, else protects pages, and keeps the log.
//
// Left out: children are not followed. A breakpoint cannot tell a read from a write; when both are
// watched, it says so.
#define _GNU_SOURCE
#include "watch.h"

#include <execinfo.h>
#include <fcntl.h>
#include <linux/hw_breakpoint.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#include "../pages/system.h"

#define REGISTERS 4
#define WORD 8

struct watch_log* watch_log;
struct watch_range watch_ranges[WATCH_RANGES];
uint32_t watch_count;
static uint64_t began;
static struct watch_snapshot* snapshots;  // NULL: none are kept
static bool wants_snapshots;

static uint64_t now(void) {
  struct timespec time;
  CALL2(SYS_clock_gettime, CLOCK_MONOTONIC, &time);
  return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

// Through the kernel, which sets off no breakpoint of ours; where it hands its calls to us,
// plainly.
static void read_memory(void* to, uint64_t address, size_t size) {
  const struct iovec here = {to, size}, there = {(void*)address, size};
  if (watch_log->mode == WATCH_MODE_BREAKPOINTS || watch_log->mode == WATCH_MODE_NONE)
    CALL6(SYS_process_vm_readv, CALL1(SYS_getpid, 0), &here, 1, &there, 1, 0);
  else
    memcpy(to, (const void*)address, size);
}

uint64_t watch_value(uint64_t address, uint64_t bytes) {
  uint64_t value = 0;
  read_memory(&value, address, bytes < sizeof value ? bytes : sizeof value);
  return value;
}

static void keep_snapshot(uint64_t number, const struct watch_range* range, const greg_t* now) {
  static const int order[WATCH_REGISTERS] = {REG_RAX, REG_RBX, REG_RCX, REG_RDX, REG_RSI, REG_RDI,
                                             REG_RBP, REG_RSP, REG_R8,  REG_R9,  REG_R10, REG_R11,
                                             REG_R12, REG_R13, REG_R14, REG_R15, REG_RIP};
  struct watch_snapshot* snapshot = &snapshots[number];
  const uint64_t bytes = range->end - range->start;
  snapshot->bytes = bytes < WATCH_SNAPSHOT ? bytes : WATCH_SNAPSHOT;
  read_memory(snapshot->data, range->start, snapshot->bytes);
  for (int i = 0; i < WATCH_REGISTERS; ++i) snapshot->registers[i] = (uint64_t)now[order[i]];
}

static bool holds(uint64_t value) {
  switch (watch_log->condition) {
    case '=':
      return value == watch_log->operand;
    case '!':
      return value != watch_log->operand;
    case '<':
      return value < watch_log->operand;
    case '>':
      return value > watch_log->operand;
    default:
      return true;
  }
}

static void nap(void) {
  const struct timespec time = {0, 50000};
  CALL2(SYS_nanosleep, &time, NULL);
}

// Until no more than `most` entries up to this one have not been read, or nobody reads any more.
// Meanwhile those of other threads behind it may have been read too.
static void wait_for_reader(uint64_t at, int64_t most) {
  while ((int64_t)(at + 1 - __atomic_load_n(&watch_log->read, __ATOMIC_ACQUIRE)) > most &&
         (uint64_t)CALL1(SYS_getppid, 0) == watch_log->reader)
    nap();
}

static void fill(struct watch_entry* entry, const struct watch_range* range, uint64_t address,
                 uint32_t kind, uint64_t caller, uint64_t value, const void* context) {
  void* path[WATCH_PATH + 5];
  const int calls = backtrace(path, WATCH_PATH + 5);
  entry->time = now() - began;
  entry->ip = (uint64_t)((const ucontext_t*)context)->uc_mcontext.gregs[REG_RIP];
  entry->address = address;
  entry->value = value;
  entry->caller = caller;
  entry->watch = range->watch;
  entry->kind = kind;
  entry->thread = (uint32_t)CALL1(SYS_gettid, 0);
  entry->calls = 0;
  // Our own frames are in front of the one that was interrupted.
  int first = 0;
  while (first < calls && (uint64_t)path[first] != entry->ip) ++first;
  for (int i = first + 1; i < calls && entry->calls < WATCH_PATH; ++i)
    entry->path[entry->calls++] = (uint64_t)path[i];
}

void watch_hit(const struct watch_range* range, uint64_t address, uint32_t kind, uint64_t caller,
               const void* context) {
  const uint64_t value = caller ? 0 : watch_value(range->start, range->end - range->start);
  if (!holds(value)) return;
  const uint64_t hits = __atomic_add_fetch(&watch_log->hits, 1, __ATOMIC_RELAXED);
  const uint64_t at = __atomic_fetch_add(&watch_log->entries, 1, __ATOMIC_RELAXED);
  if (at >= WATCH_ENTRIES && !watch_log->reader) {
    watch_log->entries = WATCH_ENTRIES;
  } else {
    if (watch_log->reader) wait_for_reader(at, WATCH_ENTRIES);
    struct watch_entry* entry = &watch_log->entry[at % WATCH_ENTRIES];
    fill(entry, range, address, kind, caller, value, context);
    if (snapshots && !caller)
      keep_snapshot(at % WATCH_ENTRIES, range, ((const ucontext_t*)context)->uc_mcontext.gregs);
    __atomic_store_n(&entry->ready, at + 1, __ATOMIC_RELEASE);
    if (watch_log->wait) wait_for_reader(at, 0);
  }
  if (hits == watch_log->stop) CALL2(SYS_kill, getpid(), SIGSTOP);
}

static void on_breakpoint(int number, siginfo_t* info, void* context) {
  (void)number;
  // The kernel gives what we gave it, behind the address: the number of the range.
  const uint64_t index = *(const uint64_t*)((const char*)info + 24);
  if (index >= watch_count) return;
  const struct watch_range* range = &watch_ranges[index];
  watch_hit(range, range->start, range->kind, 0, context);
}

static bool set_breakpoint(uint32_t index) {
  const struct watch_range* range = &watch_ranges[index];
  struct perf_event_attr a;
  memset(&a, 0, sizeof a);
  a.size = sizeof a;
  a.type = PERF_TYPE_BREAKPOINT;
  a.bp_type = range->kind == WATCH_WRITES ? HW_BREAKPOINT_W : HW_BREAKPOINT_RW;
  a.bp_addr = range->start;
  a.bp_len = range->end - range->start;
  a.sample_period = 1;
  a.exclude_kernel = a.exclude_hv = 1;
  a.inherit = a.inherit_thread = 1;
  a.sigtrap = a.remove_on_exec = 1;
  a.sig_data = index;
  return syscall(SYS_perf_event_open, &a, 0, -1, -1, PERF_FLAG_FD_CLOEXEC) >= 0;
}

// Breakpoints watch 1, 2, 4 or 8 bytes that are aligned to their size.
static bool fits(const struct watch_range* range) {
  const uint64_t size = range->end - range->start;
  return (size == 1 || size == 2 || size == 4 || size == WORD) && range->start % size == 0;
}

static bool watch_by_breakpoints(void) {
  if (watch_count > REGISTERS) return false;
  for (uint32_t i = 0; i < watch_count; ++i)
    if (!fits(&watch_ranges[i])) return false;
  struct sigaction action;
  memset(&action, 0, sizeof action);
  action.sa_sigaction = on_breakpoint;
  action.sa_flags = SA_SIGINFO;
  sigaction(SIGTRAP, &action, NULL);
  for (uint32_t i = 0; i < watch_count; ++i)
    if (!set_breakpoint(i)) {
      ++watch_log->refused;
      return false;
    }
  return true;
}

// Lines of the file: `range START BYTES WATCH KIND`, `exe` the same behind the program's start,
// `past WATCH KIND`, `if LETTER NUMBER`, `stop N`.
static void read_line(const char* line, uint64_t base) {
  unsigned long long start, bytes;
  unsigned watch, kind;
  char letter;
  const bool is_exe = sscanf(line, "exe %llx %llu %u %u", &start, &bytes, &watch, &kind) == 4;
  if (is_exe || sscanf(line, "range %llx %llu %u %u", &start, &bytes, &watch, &kind) == 4) {
    if (watch_count == WATCH_RANGES) {
      ++watch_log->refused;
      return;
    }
    start += is_exe ? base : 0;
    watch_ranges[watch_count++] = (struct watch_range){start, start + bytes, watch, kind};
  } else if (sscanf(line, "past %u %u", &watch, &kind) == 2) {
    past_on = true;
    past_watch = watch;
    past_kind = kind;
  } else if (sscanf(line, "if %c %llu", &letter, &start) == 2) {
    watch_log->condition = (uint64_t)letter;
    watch_log->operand = start;
  } else if (sscanf(line, "stop %llu", &start) == 1) {
    watch_log->stop = start;
  } else if (sscanf(line, "reader %llu %u", &start, &watch) == 2) {
    watch_log->reader = start;
    watch_log->wait = watch;
  } else if (strncmp(line, "snapshot", 8) == 0) {
    wants_snapshots = true;
  }
}

extern const char __executable_start[] __attribute__((weak));

// Where the program itself lies: the first line of its map.
static uint64_t program_start(void) {
  unsigned long long start = 0;
  FILE* maps = fopen("/proc/self/maps", "r");
  if (!maps) return 0;
  if (fscanf(maps, "%llx", &start) != 1) start = 0;
  fclose(maps);
  return start;
}

static void* map_file(const char* folder, const char* name, size_t size) {
  char path[4096];
  if (snprintf(path, sizeof path, "%s/%s", folder, name) >= (int)sizeof path) return NULL;
  const int file = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (file < 0) return NULL;  // an earlier image of this program, or its parent, has it
  if (ftruncate(file, (off_t)size) != 0) return NULL;
  void* at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  close(file);
  return at == MAP_FAILED ? NULL : at;
}

static void copy_maps(const char* folder) {
  char path[4096], buffer[4096];
  if (snprintf(path, sizeof path, "%s/maps", folder) >= (int)sizeof path) return;
  const int to = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
  const int from = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
  for (ssize_t got; to >= 0 && from >= 0 && (got = read(from, buffer, sizeof buffer)) > 0;)
    if (write(to, buffer, (size_t)got) != got) break;
  if (to >= 0) close(to);
  if (from >= 0) close(from);
}

__attribute__((constructor)) static void begin(void) {
  const char* folder = getenv("STALLSCOPE_WATCH");
  void* warm[4];
  char path[4096], line[256];
  if (!folder || snprintf(path, sizeof path, "%s/spec", folder) >= (int)sizeof path) return;
  FILE* spec = fopen(path, "r");
  if (!spec || !(watch_log = map_file(folder, "log", sizeof *watch_log))) return;
  backtrace(warm, 4);  // loads what it needs now, not in a handler
  const uint64_t base = program_start();
  while (fgets(line, sizeof line, spec)) read_line(line, base);
  fclose(spec);
  if (wants_snapshots) snapshots = map_file(folder, "snapshots", WATCH_ENTRIES * sizeof *snapshots);
  copy_maps(folder);
  began = now();
  watch_log->magic = WATCH_MAGIC;
  watch_log->ranges = watch_count;
  watch_log->mode = past_on ? WATCH_MODE_GUARDS : WATCH_MODE_NONE;
  if (watch_count > 0 && !past_on && watch_by_breakpoints())
    watch_log->mode = WATCH_MODE_BREAKPOINTS;
  else if ((watch_count > 0 || past_on) && watch_pages() && watch_count > 0)
    watch_log->mode = WATCH_MODE_PAGES;
}
