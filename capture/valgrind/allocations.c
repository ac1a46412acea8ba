/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Heap blocks, as the wraps in preload.c report them: each with the call path that asked for it.
   Wraps nest (new over malloc): only the outermost is logged, known by our own wrap's code further
   up the stack. Allocators of a target's own that tell Valgrind about their blocks are heard too.
 */
#include "intern.h"
#include "lines.h"
#include "pub_tool_libcbase.h"
#include "pub_tool_stacktrace.h"
#include "pub_tool_threadstate.h"
#include "requests.h"
#include "tool.h"
#include "valgrind.h"
#include "walks.h"

#define KEPT_FRAMES 16
#define NO_SITE 0xffffffffU
#define BY_LINE 0x80000000U /* of a site: its blocks are named by lines of Python */

static struct ss_intern sites;
static UInt next_site = 0;
static Addr last_freed = 0; /* delete over free: the same address twice, nothing in between */

UInt ss_site(UInt thread, const Addr* frames, UInt count) {
  Bool fresh;
  UInt* number = ss_intern(&sites, ss_hash(count, frames, count * sizeof(Addr)), &fresh);
  if (fresh) {
    ss_word word = next_site++;
    *number = word | (ss_lines_apply(frames[0]) ? BY_LINE : 0);
    ss_emit_tail(SS_SITE, thread, &word, 1, frames, count * sizeof(Addr));
  }
  return *number;
}

/* The number of the path by which the code that asks was called, or NO_SITE when another wrap is
   further up. The first frame is the wrap that asks. The next may be a wrap too: realloc of nothing
   jumps to malloc. */
static UInt walk_to_site(ThreadId tid, UInt thread) {
  Addr frames[SS_MAX_FRAMES], sps[SS_MAX_FRAMES], fps[SS_MAX_FRAMES];
  struct ss_walk* walk;
  if (ss_walk_known(tid, &walk)) return walk->result;
  UInt count = VG_(get_StackTrace)(tid, frames, SS_MAX_FRAMES, sps, fps, 0);
  UInt site = NO_SITE, i = 1;
  while (i < count && !ss_in_preload(frames[i])) i++;
  if (i == count && count > 1)
    site = ss_site(thread, frames + 1, count > KEPT_FRAMES ? KEPT_FRAMES : count - 1);
  ss_walk_learn(walk, frames, sps, fps, count, site);
  return site;
}

/* What the wrap has to call before it goes on; NULL for nothing. */
static const struct ss_python* allocated(ThreadId tid, UInt kind, Addr address, UWord size,
                                         Addr old) {
  if (!ss_options.heap) return NULL;
  if (address == 0 && old == 0) return NULL; /* a failed allocation is none */
  UInt thread = ss_thread(tid), site = walk_to_site(tid, thread);
  if (site == NO_SITE) return NULL;
  ss_word fields[] = {address, size, site & ~BY_LINE, kind, old};
  ss_emit(SS_ALLOC, thread, fields, 5);
  last_freed = 0;
  return address && (site & BY_LINE) ? ss_lines_begin(tid, address, size) : NULL;
}

static void freed(ThreadId tid, Addr address) {
  if (!ss_options.heap) return;
  if (address == 0 || address == last_freed) return;
  last_freed = address;
  ss_word word = address;
  ss_emit(SS_FREE, ss_thread(tid), &word, 1);
}

/* The return address of the outermost wrap around the code that asks; 0 when there is none. */
static Addr caller_of_wraps(ThreadId tid) {
  Addr frames[SS_MAX_FRAMES], caller = 0;
  UInt count = VG_(get_StackTrace)(tid, frames, 8, NULL, NULL, 0);
  for (UInt i = 0; i + 1 < count; i++)
    if (ss_in_preload(frames[i])) caller = frames[i + 1] + 1; /* frames are within the call */
  return caller;
}

Bool ss_allocation_request(ThreadId tid, UWord* args, UWord* result) {
  *result = 0;
  switch (args[0]) {
    case SS_REQUEST_ALLOCATED:
      *result = (UWord)allocated(tid, args[1], args[2], args[3], args[4]);
      return True;
    case SS_REQUEST_TOLD:
      ss_lines_end(tid);
      return True;
    case SS_REQUEST_FREED:
      freed(tid, args[1]);
      return True;
    case SS_REQUEST_CALLER:
      *result = caller_of_wraps(tid);
      return True;
    case VG_USERREQ__MALLOCLIKE_BLOCK:
      if (allocated(tid, SS_ALLOC_KIND_MALLOC, args[1], args[2], 0)) ss_lines_end(tid);
      return True;
    case VG_USERREQ__FREELIKE_BLOCK:
      freed(tid, args[1]);
      return True;
    default:
      return False;
  }
}
