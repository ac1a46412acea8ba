/* SPDX-License-Identifier: Apache-2.0 */
/* Client requests: how code in the target talks to the capture tool. The first block is what
   include/stallscope.h sends, so its numbers never change; the second is private to the preload. */
#ifndef STALLSCOPE_REQUESTS_H
#define STALLSCOPE_REQUESTS_H

#define SS_REQUEST_BASE ((unsigned long)(('S' << 24) | ('C' << 16)))
#define SS_REQUEST_START (SS_REQUEST_BASE + 0x100)
#define SS_REQUEST_STOP (SS_REQUEST_BASE + 0x101)
#define SS_REQUEST_NAME_BLOCK (SS_REQUEST_BASE + 0x102)
#define SS_REQUEST_REGION_BEGIN (SS_REQUEST_BASE + 0x103)
#define SS_REQUEST_REGION_END (SS_REQUEST_BASE + 0x104)
#define SS_REQUEST_IS_RECORDED (SS_REQUEST_BASE + 0x105)
#define SS_REQUEST_CALLER (SS_REQUEST_BASE + 0x106) /* an allocator behind our wraps asks */
#define SS_REQUEST_WHEN (SS_REQUEST_BASE + 0x107)   /* name, value */

#define SS_REQUEST_ALLOCATED (SS_REQUEST_BASE + 0x1) /* kind, address, size, old address */
#define SS_REQUEST_FREED (SS_REQUEST_BASE + 0x2)     /* address */
#define SS_REQUEST_TOLD (SS_REQUEST_BASE + 0x3)      /* the interpreter said where it is */

/* What SS_REQUEST_ALLOCATED answers, unless 0: how to make an interpreter say where it is. */
struct ss_python {
  void (*dump)(int file, void* thread);
  void* (*this_thread)(void);
  int* (*error)(void);
};

#endif
