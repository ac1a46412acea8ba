// SPDX-License-Identifier: Apache-2.0
#include "path.h"

#include <string.h>
#include <unwind.h>

#include "log.h"

// How far above its own slot the next return address stands, by return address. A frame whose size
// was found to differ ends every walk: what lies above such a frame is not told apart.
enum { CALLS = 1 << 15, MOST_CALLS = CALLS / 2, PROBES = 16 };
enum { STACK_BEGINS = 0, VARIES = 1 };

struct call {
  uint64_t address;  // 0 in an empty entry; written last
  uint64_t distance;
};

static struct call calls[CALLS];
static unsigned call_count;

// Numbers of paths by hash; sites themselves are in the log.
enum { PATHS = 2 * (HEAP_LOG_SITES + 1), FEW_FRAMES = 4 };
static uint16_t paths[PATHS] __attribute__((aligned(HEAP_LOG_PAGE)));

// Sites by the hash of a path's nearest frames: its upper bits, and the site in the lower sixteen.
// A path that agrees with a remembered one in these is taken for the same.
enum { REMEMBERED = 1 << 14, NEAR_FRAMES = 8 };
static uint64_t remembered[REMEMBERED] __attribute__((aligned(HEAP_LOG_PAGE)));

void path_after_fork(void) {
  log_empty(remembered, sizeof remembered);
  log_empty(paths, sizeof paths);
}

static struct call* call_of(uint64_t address) {
  unsigned at = (unsigned)(address * 0x9e3779b97f4a7c15u >> 40) % CALLS;
  for (unsigned i = 0; i < PROBES; i++) {
    struct call* call = &calls[(at + i) % CALLS];
    uint64_t found = __atomic_load_n(&call->address, __ATOMIC_ACQUIRE);
    if (found == address || found == 0) return call;
  }
  return NULL;
}

static void learn(uint64_t address, uint64_t distance) {
  struct call* call = call_of(address);
  if (call == NULL) return;
  if (call->address == address) {
    if (call->distance != distance) call->distance = VARIES;
  } else if (call_count < MOST_CALLS) {
    call->distance = distance;
    __atomic_store_n(&call->address, address, __ATOMIC_RELEASE);
    call_count++;
  }
}

// Adds to a path what lies from a slot on, up to `most` frames. False when a call is met that was
// never unwound; the path is then as it was.
static bool walk(struct path* path, const uintptr_t* slot, const uintptr_t* end, unsigned most) {
  unsigned depth = path->depth;
  while (depth < most && slot < end) {
    const struct call* call = call_of(*slot);
    if (call == NULL || call->address == 0) return false;
    path->frames[depth] = *slot;
    path->slots[depth++] = slot;
    uint64_t distance = call->distance;
    if (distance == STACK_BEGINS || distance == VARIES) break;
    slot += distance / sizeof *slot;
  }
  path->depth = depth;
  return true;
}

struct unwinding {
  struct path* path;
  const uintptr_t *slot, *end;
  bool was_walked;  // to its end, from some frame on
};

// The unwinder reads what the frames' descriptions say; one that leads out of the stack ends it. It
// takes thousands of instructions a frame, so what is known is walked.
static _Unwind_Reason_Code take_frame(struct _Unwind_Context* context, void* data) {
  struct unwinding* now = data;
  struct path* path = now->path;
  const uintptr_t* slot = (const uintptr_t*)_Unwind_GetCFA(context) - 1;
  if (path->depth == 0 && slot < now->slot) return _URC_NO_REASON;
  bool is_wrong = path->depth == 0 ? slot != now->slot
                                   : slot <= path->slots[path->depth - 1] || slot >= now->end;
  if (is_wrong || *slot != _Unwind_GetIP(context)) return _URC_NORMAL_STOP;
  now->was_walked = path->depth > 0 && walk(path, slot, now->end, HEAP_LOG_FRAMES);
  if (now->was_walked) return _URC_NORMAL_STOP;
  path->frames[path->depth] = *slot;
  path->slots[path->depth++] = slot;
  return path->depth == HEAP_LOG_FRAMES ? _URC_NORMAL_STOP : _URC_NO_REASON;
}

static void unwind(struct path* path, const uintptr_t* slot, const uintptr_t* end) {
  struct unwinding now = {.path = path, .slot = slot, .end = end};
  _Unwind_Backtrace(take_frame, &now);
  if (path->depth == 0) {
    path->frames[0] = *slot;
    path->slots[0] = slot;
    path->depth = 1;
  }
  log_lock();
  for (unsigned i = 0; i + 1 < path->depth; i++)
    learn(path->frames[i], (uint64_t)((const char*)path->slots[i + 1] - (char*)path->slots[i]));
  if (path->depth < HEAP_LOG_FRAMES && !now.was_walked)
    learn(path->frames[path->depth - 1], STACK_BEGINS);
  log_unlock();
}

static uint64_t hash(const uint64_t* frames, unsigned depth) {
  uint64_t sum = depth;
  for (unsigned i = 0; i < depth; i++) {
    sum = (sum ^ frames[i]) * 0x9e3779b97f4a7c15u;
    sum ^= sum >> 29;
  }
  return sum;
}

static bool make_site(uint32_t number, const uint64_t* frames, unsigned depth) {
  struct heap_log_site* site = &log_now.sites[number];
  if (number == HEAP_LOG_SITES || !log_ready((uint64_t)((char*)site - log_now.base), sizeof *site))
    return false;
  site->depth = depth;
  memcpy(site->frames, frames, depth * sizeof *frames);
  __atomic_store_n(&log_now.header->sites, number + 1, __ATOMIC_RELEASE);
  return true;
}

static uint32_t numbered(const uint64_t* frames, unsigned depth) {
  unsigned at = (unsigned)(hash(frames, depth) >> 32) % PATHS;
  for (;; at = (at + 1) % PATHS) {
    uint32_t number = paths[at];
    if (number == 0) break;
    const struct heap_log_site* site = &log_now.sites[number];
    if (site->depth == depth && memcmp(site->frames, frames, depth * sizeof *frames) == 0)
      return number;
  }
  uint32_t number = log_now.header->sites;
  if (!make_site(number, frames, depth)) return HEAP_LOG_UNKNOWN_SITE;
  paths[at] = (uint16_t)number;
  return number;
}

// Recursion can make more paths than there are numbers: from half of them on, the innermost frames
// tell sites apart, and from three quarters on the innermost one.
static uint32_t site_of(const struct path* path) {
  log_lock();
  uint32_t given = log_now.header->sites;
  unsigned most = given < HEAP_LOG_SITES / 2       ? HEAP_LOG_FRAMES
                  : given < HEAP_LOG_SITES / 4 * 3 ? FEW_FRAMES
                                                   : 1;
  uint32_t site = numbered(path->frames, path->depth < most ? path->depth : most);
  log_unlock();
  return site;
}

static void find(struct path* path, const uintptr_t* slot, const uintptr_t* end) {
  path->depth = 0;
  if (walk(path, slot, end, HEAP_LOG_FRAMES)) return;
  log_is_busy = true;
  unwind(path, slot, end);
  log_is_busy = false;
  log_count(&log_now.header->unwound);
}

// The frames that were tried are the path's first, whether or not it is remembered.
uint32_t path_site(struct path* path, const uintptr_t* slot, const uintptr_t* end) {
  path->depth = 0;
  uint64_t *place = NULL, tag = 0;
  if (walk(path, slot, end, NEAR_FRAMES)) {
    uint64_t sum = hash(path->frames, path->depth);
    place = &remembered[sum % REMEMBERED];
    tag = sum >> 16 << 16;
    uint64_t entry = __atomic_load_n(place, __ATOMIC_RELAXED);
    if (entry >> 16 << 16 == tag && entry != 0) {
      log_count(&log_now.header->walked);
      return (uint32_t)(entry & 0xffff);
    }
  }
  find(path, slot, end);
  uint32_t site = site_of(path);
  if (place != NULL && site != HEAP_LOG_UNKNOWN_SITE)
    __atomic_store_n(place, tag | site, __ATOMIC_RELAXED);
  return site;
}
