// SPDX-License-Identifier: Apache-2.0
// The allocator for what is not placed: malloc, or, where we stand in malloc's place ourselves, the
// C library's by its own names, which need no look-up before there is an allocator.
#ifndef STALLSCOPE_NEAR_SYSTEM_H
#define STALLSCOPE_NEAR_SYSTEM_H

#include <stdlib.h>

#ifdef STALLSCOPE_NEAR_PRELOAD
void* __libc_malloc(size_t size);
void* __libc_calloc(size_t count, size_t size);
void* __libc_realloc(void* block, size_t size);
void __libc_free(void* block);
#define system_malloc __libc_malloc
#define system_calloc __libc_calloc
#define system_realloc __libc_realloc
#define system_free __libc_free
#else
#define system_malloc malloc
#define system_calloc calloc
#define system_realloc realloc
#define system_free free
#endif

#endif
