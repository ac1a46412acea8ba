/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The target's end of the shared memory that schemas/ring.py describes.
   Back-pressure, never loss: a full ring makes the target wait. The recorder is known to be alive
   by a lock that it holds on `recorder.lock`, and it knows the target to be alive by a lock that
   the target holds on its ring file: locks of a dead process are gone, even those of a zombie. */
#include "pub_tool_aspacemgr.h"
#include "pub_tool_libcassert.h"
#include "pub_tool_libcbase.h"
#include "pub_tool_libcfile.h"
#include "pub_tool_libcprint.h"
#include "pub_tool_libcproc.h"
#include "pub_tool_vkiscnums.h"
#include "tool.h"

#define BUFFER_BYTES (SS_RING_BUFFER_WORDS * 8UL)
#define WRITE_LOCK 1        /* F_WRLCK */
#define NO_LOCK 2           /* F_UNLCK */
#define OFD_SETLK 37        /* F_OFD_SETLK */
#define BACKLOG 48          /* buffers; then the reader is behind */
#define COUNTER_STEP 8192UL /* counters made sure of at a time: 64 KiB */

struct ss_ring* ss_ring = NULL;

static Int ring_fd = -1;
static Int recorder_fd = -1;
static Bool attached = False;
static ULong counters_ready = 0;
static ss_word* spare_counters = NULL; /* counted into while measuring is off */

static SysRes system_call(UWord number, UWord a, UWord b, UWord c, UWord d, UWord e, UWord f) {
  return VG_(do_syscall)(number, a, b, c, d, e, f, 0, 0);
}

ULong ss_clock_ns(void) {
  struct vki_timespec now = {0, 0};
  system_call(__NR_clock_gettime, 1 /* CLOCK_MONOTONIC */, (UWord)&now, 0, 0, 0, 0);
  return (ULong)now.tv_sec * 1000000000ULL + (ULong)now.tv_nsec;
}

static Addr buffer_start(ULong number) {
  return (Addr)ss_ring + SS_RING_HEADER_BYTES + (number % SS_RING_BUFFERS) * BUFFER_BYTES;
}

/* Where the words of the buffer that comes next are written. */
static Addr writing_start(void) {
  return ss_options.stream ? (Addr)ss_ring + SS_RING_DESK_OFFSET : buffer_start(ss_ring->published);
}

/* Bytes in which the longest block has room. */
static UWord guard_bytes(void) { return (ss_options.values ? 2 : 1) * SS_RING_GUARD_WORDS * 8UL; }

static void enter_buffer(void) {
  ss_ring->position = writing_start();
  ss_ring->limit = writing_start() + BUFFER_BYTES - guard_bytes();
}

/* The recorder's lock is a POSIX one, so it is gone with its process. Ours belongs to the open
   file: Valgrind opens and closes every file that is mapped, which would drop a POSIX lock. A
   forked child gives its share of it up at once. */
static Bool lock(Int fd, Int command, Short* type) {
  struct vki_flock lk;
  VG_(memset)(&lk, 0, sizeof lk);
  lk.l_type = *type;
  lk.l_whence = VKI_SEEK_SET;
  if (VG_(fcntl)(fd, command, (Addr)&lk) < 0) return False;
  *type = lk.l_type;
  return True;
}

static Bool recorder_alive(void) {
  Short type = WRITE_LOCK;
  if (!lock(recorder_fd, VKI_F_GETLK, &type)) return False;
  return type != NO_LOCK;
}

static Int open_private(const HChar* path, Int flags) {
  SysRes res = VG_(open)(path, flags | 02000000 /* O_CLOEXEC */ | 0400000 /* O_NOFOLLOW */, 0600);
  if (sr_isError(res)) return -1;
  Int fd = VG_(safe_fd)(sr_Res(res));
  VG_(fcntl)(fd, VKI_F_SETFD, VKI_FD_CLOEXEC);
  return fd;
}

static Bool exists(const HChar* kind, UInt image) {
  HChar path[VG_(strlen)(ss_options.folder) + 64];
  struct vg_stat st;
  VG_(sprintf)(path, "%s/%s-%d.%u", ss_options.folder, kind, VG_(getpid)(), image);
  return !sr_isError(VG_(stat)(path, &st));
}

/* Exec keeps the pid, so a process may need several rings; the recorder renames what it took. */
static Int create_ring_file(void) {
  HChar path[VG_(strlen)(ss_options.folder) + 64];
  UInt image = 0;
  while (exists("taken", image) || exists("ring", image)) image++;
  VG_(sprintf)(path, "%s/ring-%d.%u", ss_options.folder, VG_(getpid)(), image);
  return open_private(path, VKI_O_RDWR | VKI_O_CREAT | VKI_O_EXCL);
}

static Bool allocate(Int fd, ULong offset, ULong length) {
  return !sr_isError(system_call(__NR_fallocate, fd, 0, offset, length, 0, 0));
}

static Bool prepare_file(void) {
  Short type = WRITE_LOCK;
  ring_fd = create_ring_file();
  if (ring_fd < 0) return False;
  if (sr_isError(system_call(__NR_ftruncate, ring_fd, SS_RING_BYTES, 0, 0, 0, 0))) return False;
  return allocate(ring_fd, 0, SS_RING_COUNTER_OFFSET) && lock(ring_fd, OFD_SETLK, &type);
}

static void fill_header(ULong exits) {
  ss_ring->version = SS_STREAM_VERSION;
  ss_ring->mode = ss_options.stream ? SS_MODE_STREAM : SS_MODE_COUNT;
  ss_ring->pid = VG_(getpid)();
  ss_ring->base = (Addr)ss_ring;
  ss_ring->counters = (Addr)ss_ring + SS_RING_COUNTER_OFFSET;
  ss_ring->stop_at = ~0ULL;
  ss_ring->exits = exits;
  enter_buffer();
  __atomic_store_n(&ss_ring->magic, SS_RING_MAGIC, __ATOMIC_RELEASE);
}

static void say(const HChar* text) { VG_(write)(2, text, VG_(strlen)(text)); }

void ss_ring_open(void) {
  HChar path[VG_(strlen)(ss_options.folder) + 32];
  VG_(sprintf)(path, "%s/recorder.lock", ss_options.folder);
  recorder_fd = open_private(path, VKI_O_RDWR);
  Bool ready = recorder_fd >= 0 && recorder_alive() && prepare_file();
  if (ready) {
    SysRes res = VG_(am_shared_mmap_file_float_valgrind)(
        SS_RING_BYTES, VKI_PROT_READ | VKI_PROT_WRITE, ring_fd, 0);
    ready = !sr_isError(res);
    if (ready) ss_ring = (struct ss_ring*)sr_Res(res);
  }
  /* A process tree whose recorder is gone, or a full disk: the program still runs. */
  if (!ready) {
    say("stallscope: no recorder answers; the program runs unrecorded\n");
    ss_ring = VG_(am_shadow_alloc)(SS_RING_BYTES);
    if (ss_ring == NULL) VG_(tool_panic)("no memory for the ring");
    counters_ready = SS_RING_COUNTERS;
  }
  attached = ready;
  spare_counters = VG_(am_shadow_alloc)(SS_RING_COUNTERS * 8UL);
  if (spare_counters == NULL) VG_(tool_panic)("no memory for the spare counters");
  fill_header(0);
}

Bool ss_ring_attached(void) { return attached; }

/* Put private memory where the ring was: the file may belong to a parent who still uses it. */
static void map_private(void) {
  SysRes res = system_call(__NR_mmap, (UWord)ss_ring, SS_RING_BYTES, VKI_PROT_READ | VKI_PROT_WRITE,
                           VKI_MAP_PRIVATE | VKI_MAP_FIXED | VKI_MAP_ANONYMOUS, -1, 0);
  if (sr_isError(res)) VG_(tool_panic)("cannot leave the ring");
  counters_ready = SS_RING_COUNTERS;
}

void ss_ring_detach(void) {
  if (!attached) return;
  attached = False;
  ULong exits = ss_ring->exits;
  map_private();
  fill_header(exits);
}

/* The parent's header as it was at the fork: the parent writes on in the shared one. */
static struct ss_ring at_fork;

void ss_ring_before_fork(void) {
  ss_ring_publish();
  at_fork = *ss_ring;
}

void ss_ring_reopen(void) {
  ULong exits = at_fork.exits;
  if (!attached) return;
  VG_(close)(ring_fd);
  counters_ready = 0;
  if (ss_options.children && recorder_alive() && prepare_file()) {
    SysRes res =
        system_call(__NR_mmap, (UWord)ss_ring, SS_RING_BYTES, VKI_PROT_READ | VKI_PROT_WRITE,
                    VKI_MAP_SHARED | VKI_MAP_FIXED, ring_fd, 0);
    if (sr_isError(res)) VG_(tool_panic)("cannot map a child's ring");
    if (!ss_ring_more_counters(exits)) map_private(), attached = False;
  } else {
    map_private();
    attached = False;
  }
  fill_header(exits);
  ss_ring->stop_at = at_fork.stop_at;
  ss_ring->executed = at_fork.executed;
  if (at_fork.parked) ss_ring_park();
}

Bool ss_ring_more_counters(ULong exits) {
  if (exits > SS_RING_COUNTERS) return False;
  while (counters_ready < exits) {
    if (!allocate(ring_fd, SS_RING_COUNTER_OFFSET + counters_ready * 8, COUNTER_STEP * 8))
      return False;
    counters_ready += COUNTER_STEP;
  }
  return True;
}

static void leave_dead_recorder(void) {
  say("stallscope: the recorder is gone; the program goes on unrecorded\n");
  ss_ring_detach();
}

/* The reader has much to do before it runs out of work, so a nap costs nothing, and spinning would
   take the processor away from it. */
static void wait_for_reader(void) {
  for (UInt round = 1; attached; round++) {
    ULong consumed = __atomic_load_n(&ss_ring->consumed, __ATOMIC_ACQUIRE);
    if (ss_ring->published - consumed < SS_RING_BUFFERS) return;
    struct vki_timespec nap = {0, 100000};
    system_call(__NR_nanosleep, (UWord)&nap, 0, 0, 0, 0, 0);
    if (round % 200 == 0 && !recorder_alive()) leave_dead_recorder();
  }
}

/* Where the next record goes: generated code may be parked elsewhere meanwhile. */
static ss_word* cursor(void) { return ss_ring->parked ? &ss_ring->parked : &ss_ring->position; }

/* `desk` last: until then, what lies on the desk has been published, if it was written at all. */
static void start_buffer(void) {
  if (ss_ring->parked)
    ss_ring->parked = writing_start();
  else
    enter_buffer();
  __atomic_store_n(&ss_ring->desk, ss_ring->published, __ATOMIC_RELEASE);
}

/* As it is, or sifted while there is enough for the reader to do. The words that it became. */
static ULong copy_from_desk(ULong number, ULong words) {
  const ss_word* from = (const ss_word*)writing_start();
  ULong behind = number - __atomic_load_n(&ss_ring->consumed, __ATOMIC_ACQUIRE);
  if (ss_sift_wanted() && behind >= BACKLOG) {
    ss_ring->sifted = number + 1;
    from = ss_sift(from, &words, (ss_word*)((Addr)ss_ring + SS_RING_COUNTER_OFFSET));
  } else {
    ss_sift_passed_by();
  }
  ss_hand_over((ss_word*)buffer_start(number), from, words);
  return words;
}

void ss_ring_publish(void) {
  if (!attached) return start_buffer();
  ULong number = ss_ring->published;
  ULong used = (*cursor() - writing_start()) / 8;
  if (used == 0) return;
  /* One system call a buffer; a program that never fills the ring shall notice too. */
  if (!recorder_alive()) leave_dead_recorder();
  if (ss_options.stream) {
    wait_for_reader();
    if (attached) used = copy_from_desk(number, used);
  }
  if (attached) {
    ss_ring->used[number % SS_RING_BUFFERS] = used;
    __atomic_store_n(&ss_ring->published, number + 1, __ATOMIC_RELEASE);
    if (!ss_options.stream) wait_for_reader();
  }
  start_buffer();
}

ss_word* ss_ring_reserve(UInt words) {
  Addr end = writing_start() + BUFFER_BYTES;
  if (*cursor() + words * 8UL > end) ss_ring_publish();
  return (ss_word*)(Addr)*cursor();
}

void ss_ring_commit(const ss_word* end) { __atomic_store_n(cursor(), (Addr)end, __ATOMIC_RELEASE); }

/* Takes what generated code writes while measuring is off. */
static ss_word parking[SS_RING_BUFFER_WORDS];

static void enter_parking(void) {
  ss_ring->position = (Addr)parking;
  ss_ring->limit = (Addr)parking + BUFFER_BYTES - guard_bytes();
}

void ss_ring_next_buffer(void) {
  if (ss_ring->parked)
    enter_parking();
  else
    ss_ring_publish();
}

void ss_ring_park(void) {
  ss_ring->parked = ss_ring->position;
  ss_ring->counters = (Addr)spare_counters;
  enter_parking();
}

void ss_ring_unpark(void) {
  ss_ring->position = ss_ring->parked;
  ss_ring->limit = writing_start() + BUFFER_BYTES - guard_bytes();
  ss_ring->counters = (Addr)ss_ring + SS_RING_COUNTER_OFFSET;
  ss_ring->parked = 0;
}

void ss_ring_end(void) {
  if (!attached) return;
  ss_ring_publish();
  if (!attached) return;
  __atomic_store_n(&ss_ring->ended, 1, __ATOMIC_RELEASE);
}
