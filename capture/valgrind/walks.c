/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "walks.h"

#include "pub_tool_debuginfo.h"
#include "pub_tool_libcbase.h"
#include "pub_tool_machine.h"

/* Of Valgrind's core, exported by libcoregrind but not by the tool headers. */
struct registers {
  Addr ip, sp, fp;
};
extern Bool VG_(use_CF_info)(struct registers* here, Addr least, Addr most);
extern Addr VG_(get_FP)(ThreadId tid);
extern void VG_(stack_limits)(Addr sp, Addr* start, Addr* end);

#define WALKS 512
#define WRAPS 64
#define RED_ZONE 128
#define PAGE 4096
#define FLIPPED 64 /* another address, not far away */
#define DISPROVED_TOO_OFTEN 8

/* A walk is looked at closely only when it comes again. */
enum ss_walk_state { NEW, SEEN, KNOWN, HOPELESS };

static struct ss_walk walks[WALKS];
/* How far above the stack pointer the function that asks has its return address. */
static struct {
  Addr ip;
  UWord above;
} wraps[WRAPS];

static UInt wrap_slot(Addr ip) { return (ip >> 2) % WRAPS; }

static struct ss_walk_key key_of(ThreadId tid) {
  struct ss_walk_key key = {VG_(get_IP)(tid), VG_(get_SP)(tid), 0, tid, VG_(current_DiEpoch)().n};
  UInt slot = wrap_slot(key.ip);
  if (wraps[slot].ip == key.ip) key.caller = *(const Addr*)(key.sp + wraps[slot].above);
  return key;
}

static Bool same_key(const struct ss_walk_key* a, const struct ss_walk_key* b) {
  return a->ip == b->ip && a->sp == b->sp && a->caller == b->caller && a->tid == b->tid &&
         a->epoch == b->epoch;
}

static Bool still_true(const struct ss_walk* walk) {
  if (walk->needs_fp && walk->fp != VG_(get_FP)(walk->key.tid)) return False;
  for (UInt i = walk->words; i-- > 0;)
    if (*walk->word[i].at != walk->word[i].value) return False;
  return True;
}

Bool ss_walk_known(ThreadId tid, struct ss_walk** walk) {
  struct ss_walk_key key = key_of(tid);
  ULong hash = (key.ip ^ key.sp << 20 ^ key.caller << 8) * 0x9e3779b97f4a7c15ULL;
  struct ss_walk* found = *walk = &walks[(hash >> 32) % WALKS];
  if (!same_key(&found->key, &key)) {
    found->key = key;
    found->state = NEW;
    found->disproved = 0;
    return False;
  }
  if (found->state != KNOWN) return False;
  if (still_true(found)) return True;
  found->state = ++found->disproved < DISPROVED_TOO_OFTEN ? SEEN : HOPELESS;
  return False;
}

/* One step of a walk, as Valgrind takes it: by the unwinding rules, else by the chain of frame
   pointers, else by whatever lies on top of the stack. */
struct step {
  struct registers after;
  const Addr* return_at; /* where the return address was read; NULL for nowhere */
  const Addr* fp_at;     /* likewise the frame pointer */
  Bool needs_fp;         /* the step depends on the frame pointer that it begins with */
  Bool keeps_fp;
  Bool last; /* the walk ends here */
};

/* Whether a step by the rules reads this word: what comes out then depends on it. Nobody else runs
   while the word is changed. */
static Bool reads(const struct registers* from, const struct registers* after, Addr least,
                  Addr most, Addr* at) {
  struct registers other = *from;
  *at ^= FLIPPED;
  Bool stepped = VG_(use_CF_info)(&other, least, most);
  *at ^= FLIPPED;
  return !stepped || other.ip != after->ip || other.sp != after->sp || other.fp != after->fp;
}

/* False when what a step by the rules reads cannot be told. */
static Bool look_at_rules(const struct registers* from, Addr least, Addr most, struct step* step) {
  struct registers other = *from;
  const struct registers* after = &step->after;
  other.fp ^= FLIPPED;
  step->needs_fp =
      !VG_(use_CF_info)(&other, least, most) || other.ip != after->ip || other.sp != after->sp;
  step->keeps_fp = !step->needs_fp && after->fp == from->fp && other.fp == (from->fp ^ FLIPPED);
  step->last = after->ip <= 1 || after->sp <= from->sp;
  if (after->sp <= from->sp || after->sp % sizeof(Addr) || from->sp % sizeof(Addr)) return False;
  Addr* return_at = (Addr*)after->sp - 1;
  if (*return_at != after->ip || !reads(from, after, least, most, return_at)) return False;
  step->return_at = return_at;
  if (step->keeps_fp || step->last) return True;
  for (Addr* at = (Addr*)from->sp; at < return_at; at++)
    if (*at == after->fp && reads(from, after, least, most, at)) step->fp_at = at;
  return step->fp_at != NULL;
}

static Bool look_at_step(const struct registers* from, Addr least, Addr most, struct step* step) {
  *step = (struct step){.after = *from, .needs_fp = True};
  if (VG_(use_CF_info)(&step->after, least, most)) return look_at_rules(from, least, most, step);
  if (least <= from->fp && from->fp <= most - sizeof(Addr)) {
    step->fp_at = (const Addr*)from->fp;
    step->return_at = step->fp_at + 1;
    step->after = (struct registers){*step->return_at, from->fp + 2 * sizeof(Addr), *step->fp_at};
    step->last = step->after.ip <= 1 || step->after.sp <= from->sp;
    return True;
  }
  step->keeps_fp = True;
  step->last = !(least <= from->sp && from->sp < most);
  if (step->last) return True;
  step->return_at = (const Addr*)from->sp;
  step->after = (struct registers){*step->return_at, from->sp + sizeof(Addr), from->fp};
  step->last = step->after.ip <= 1;
  return True;
}

static void check_word(struct ss_walk* walk, const Addr* at) {
  walk->word[walk->words].at = at;
  walk->word[walk->words++].value = *at;
}

/* Takes the walk again, step by step. False when it cannot be followed. */
static Bool look_at_walk(ThreadId tid, const Addr* frames, const Addr* sps, const Addr* fps,
                         UInt count, struct step* steps, UInt* taken) {
  Addr start = 0, end = VG_(thread_get_stack_max)(tid);
  VG_(stack_limits)(sps[0], &start, &end);
  Addr least = sps[0] - RED_ZONE, most = VG_ROUNDUP(end, PAGE) - sizeof(Addr);
  struct registers at = {frames[0], sps[0], fps[0]};
  for (*taken = 0; *taken + 1 < SS_MAX_FRAMES;) {
    struct step* step = &steps[*taken];
    if (!look_at_step(&at, least, most, step)) return False;
    *taken += 1;
    if (step->last) return *taken == count;
    if (*taken >= count || step->after.ip - 1 != frames[*taken]) return False;
    at = step->after;
    at.ip -= 1;
  }
  return count == SS_MAX_FRAMES;
}

void ss_walk_learn(struct ss_walk* walk, const Addr* frames, const Addr* sps, const Addr* fps,
                   UInt count, UInt result) {
  struct step steps[SS_MAX_FRAMES];
  UInt taken;
  if (walk->state != SEEN) {
    if (walk->state == NEW) walk->state = SEEN;
    return;
  }
  walk->state = HOPELESS;
  if (!look_at_walk(walk->key.tid, frames, sps, fps, count, steps, &taken)) return;
  walk->state = KNOWN;
  walk->result = result;
  walk->fp = fps[0];
  walk->words = 0;
  walk->needs_fp = False;
  /* From the end: a saved frame pointer matters where a later step needs it. */
  for (UInt i = taken; i-- > 0;) {
    const struct step* step = &steps[i];
    if (walk->needs_fp && step->fp_at) check_word(walk, step->fp_at);
    if (step->return_at) check_word(walk, step->return_at);
    walk->needs_fp = step->needs_fp || (walk->needs_fp && step->keeps_fp);
  }
  if (steps[0].needs_fp || steps[0].return_at == NULL) return;
  wraps[wrap_slot(frames[0])].ip = frames[0];
  wraps[wrap_slot(frames[0])].above = (Addr)steps[0].return_at - sps[0];
}
