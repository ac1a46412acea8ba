/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Switching measuring on and off: by the program's marks, by --from/--to, --skip and --max.
   While it is off, generated code counts and writes into the void; records still flow. */
#include "pub_tool_libcbase.h"
#include "pub_tool_tooliface.h"
#include "requests.h"
#include "tool.h"

static Bool measuring = True;
static Bool finished = False;     /* --max-instructions was reached */
static ULong measured_before = 0; /* valid while not measuring */

static Bool hidden = False;
static struct { ULong executed, stop_at; } before_hiding;

Bool ss_measuring(void) { return measuring && !hidden; }

ULong ss_measured(void) {
  if (!measuring) return measured_before;
  return hidden ? before_hiding.executed : ss_ring->executed;
}

/* Neither measured nor skipped. */
void ss_measure_hide(Bool hide) {
  if (hide == hidden) return;
  if (hide) {
    before_hiding.executed = ss_ring->executed;
    before_hiding.stop_at = ss_ring->stop_at;
    ss_ring->stop_at = ~0ULL;
    if (measuring) ss_ring_park();
  } else {
    if (measuring) ss_ring_unpark();
    ss_ring->executed = before_hiding.executed;
    ss_ring->stop_at = before_hiding.stop_at;
  }
  hidden = hide;
}

static void arm(void) {
  ss_ring->stop_at = ~0ULL;
  if (measuring && ss_options.max > 0) ss_ring->stop_at = ss_options.max;
  if (!measuring && ss_options.skip > 0) ss_ring->stop_at = ss_options.skip;
}

/* `executed` counts what is measured, or, before --skip is over, what is skipped. */
static void stop(void) {
  measured_before = ss_ring->executed;
  ss_ring->executed = 0;
  ss_ring_park();
  measuring = False;
}

static void start(void) {
  ss_ring_unpark();
  ss_ring->executed = measured_before;
  measuring = True;
}

void ss_measure(Bool on, UInt mark) {
  if (on == measuring || finished || hidden) return;
  if (on) start();
  ss_word kind = mark;
  ss_emit_tail(SS_MARK, ss_current_thread(), &kind, 1, "", 0);
  if (!on) stop();
  if (on) ss_options.skip = 0; /* skipping happens once */
  arm();
}

void ss_measure_init(void) {
  if (ss_options.skip || ss_options.from) stop();
  arm();
}

void ss_measure_limit(void) {
  if (!measuring) {
    ss_measure(True, SS_MARK_KIND_MEASURE_ON);
    return;
  }
  ss_measure(False, SS_MARK_KIND_MAX_INSTRUCTIONS);
  finished = True;
  arm();
  ss_ring->stop_at = ~0ULL;
}

void ss_measure_from(void) {
  if (ss_options.skip == 0) ss_measure(True, SS_MARK_KIND_MEASURE_ON);
}

void ss_measure_to(void) { ss_measure(False, SS_MARK_KIND_MEASURE_OFF); }

static void mark(UInt kind, Addr name) {
  ss_word word = kind;
  const HChar* text = name ? (const HChar*)name : "";
  ss_emit_tail(SS_MARK, ss_current_thread(), &word, 1, text, VG_(strlen)(text));
}

static void when(Addr name, UWord value) {
  ss_word word = value;
  const HChar* text = name ? (const HChar*)name : "";
  ss_emit_tail(SS_WHEN, ss_current_thread(), &word, 1, text, VG_(strlen)(text));
}

void ss_name_block(Addr address, UWord size, const HChar* name) {
  ss_word fields[] = {address, size};
  const HChar* text = name ? name : "";
  ss_emit_tail(SS_NAME_BLOCK, ss_current_thread(), fields, 2, text, VG_(strlen)(text));
}

Bool ss_measure_request(ThreadId tid, UWord* args, UWord* result) {
  *result = 0;
  switch (args[0]) {
    case SS_REQUEST_START:
      ss_measure(True, SS_MARK_KIND_MEASURE_ON);
      return True;
    case SS_REQUEST_STOP:
      ss_measure(False, SS_MARK_KIND_MEASURE_OFF);
      return True;
    case SS_REQUEST_NAME_BLOCK:
      ss_name_block(args[1], args[2], (const HChar*)args[3]);
      return True;
    case SS_REQUEST_REGION_BEGIN:
      mark(SS_MARK_KIND_REGION_BEGIN, args[1]);
      return True;
    case SS_REQUEST_REGION_END:
      mark(SS_MARK_KIND_REGION_END, args[1]);
      return True;
    case SS_REQUEST_WHEN:
      when(args[1], args[2]);
      return True;
    case SS_REQUEST_IS_RECORDED:
      *result = 1;
      return True;
    default:
      return False;
  }
}
