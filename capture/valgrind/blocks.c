/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The code table's writing end: every distinct block is defined once in the stream. Valgrind throws
   translations away and makes them again; the same code then keeps its number. */
#include "intern.h"
#include "pub_tool_libcbase.h"
#include "pub_tool_libcprint.h"
#include "tool.h"

#define MAX_CODE_BYTES (SS_MAX_INSTRUCTIONS * 16)
#define MAX_TAIL_BYTES                                                         \
  (SS_MAX_INSTRUCTIONS * 8 + SS_MAX_OPERATIONS * sizeof(struct ss_operation) + \
   SS_MAX_INSTRUCTIONS * sizeof(struct ss_exit) + MAX_CODE_BYTES)

static struct ss_intern blocks;
static UChar tail[MAX_TAIL_BYTES];

static UInt append(UInt at, const void* data, UInt bytes) {
  VG_(memcpy)(tail + at, data, bytes);
  return at + bytes;
}

static UInt fill_tail(const struct ss_block_shape* shape) {
  UInt at = append(0, shape->instruction, shape->instructions * 8);
  at = append(at, shape->operation, shape->operations * sizeof shape->operation[0]);
  at = append(at, shape->exit, shape->exits * sizeof shape->exit[0]);
  for (UInt i = 0; i < shape->instructions; i++)
    at = append(at, (const void*)SS_INSTRUCTION_ADDRESS(shape->instruction[i]),
                SS_INSTRUCTION_LENGTH(shape->instruction[i]));
  return at;
}

UInt ss_block_number(const struct ss_block_shape* shape) {
  Bool fresh;
  UInt bytes = fill_tail(shape);
  UInt* number = ss_intern(&blocks, ss_hash(shape->address, tail, bytes), &fresh);
  if (!fresh) return *number;
  *number = ss_ring->exits;
  if (!ss_ring_more_counters(ss_ring->exits + shape->exits)) {
    VG_(fmsg)("stallscope: no room to count more blocks of code\n");
    ss_ring_detach();
  }
  ss_ring->exits += shape->exits;
  ss_sift_define(shape);
  ss_word fields[] = {*number, shape->address, shape->instructions, shape->operations,
                      shape->exits};
  ss_emit_tail(SS_BLOCK, ss_current_thread(), fields, 5, tail, bytes);
  return *number;
}
