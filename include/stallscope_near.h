// SPDX-License-Identifier: Apache-2.0
/* Small heap blocks near the blocks that they are used with. Link libstallscope_near, or compile
 * runtime/near/ in.
 *
 *   struct cell* cell = ss_malloc_near_room(sizeof *cell, 128);
 *   struct pin* pin = ss_malloc_near(sizeof *pin, cell);      near the cell that will point to it
 *   ss_free_near(pin);
 *
 * Blocks of up to SS_NEAR_LARGEST bytes have no headers and lie in pages of the library's own.
 * - Alignment: 16 where the size is a multiple of 16, else 8. A type that needs 16 has such a size.
 * - A block of at most 64 bytes lies in one cache line; a larger one touches no more lines than its
 *   size needs.
 * - A hint is only a wish: its memory is never read, and it may be NULL, freed, or any other
 * address.
 * - Larger sizes, and all sizes when the address space is used up, come from malloc.
 * Every function may be called from every thread, and in the child of a fork.
 */
#ifndef STALLSCOPE_NEAR_H
#define STALLSCOPE_NEAR_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif
#ifdef __GNUC__
#pragma GCC visibility push(default)
#endif

#define SS_NEAR_LARGEST 256 /* bytes of the largest block that is placed */
#define SS_NEAR_LINE 64     /* bytes of a cache line */

/* A block in the cache line of `hint`, or else in the same group of lines (see
 * ss_malloc_near_room; two lines for other blocks), or else in the same page, or else in a page
 * that takes what overflows, at lines that do not share a set with the hint's in a cache whose ways
 * are pages. NULL and errno ENOMEM when there is no memory. */
void* ss_malloc_near(size_t size, const void* hint);

/* A block at the beginning of `room` free bytes (rounded up to 64, 128 or 256) that are kept for
 * blocks with a hint into them. */
void* ss_malloc_near_room(size_t size, size_t room);

/* Like realloc, but a size of 0 is one of 1. A block that moves moves near `hint`; a block of
 * malloc stays with malloc. */
void* ss_realloc_near(void* block, size_t size, const void* hint);

/* Takes blocks of this library and blocks of malloc. A pointer into the library's pages that is no
 * block's beginning, as after a double free, ends the program with a message. */
void ss_free_near(void* block);

/* The bytes that a block of this library may use; 0 for every other address. */
size_t ss_near_usable(const void* block);

/* Where blocks went so far, over all threads. */
struct ss_near_stats {
  uint64_t same_line;   /* hinted: in the hint's cache line */
  uint64_t same_group;  /* hinted: in its group of lines */
  uint64_t same_page;   /* hinted: in its page */
  uint64_t apart;       /* hinted: elsewhere, in another set than the hint's line */
  uint64_t conflicting; /* hinted: elsewhere, in the same set */
  uint64_t unhinted;    /* placed without a hint, or with one to memory of others */
  uint64_t passed_on;   /* given by malloc */
  uint64_t freed;       /* placed blocks that were freed */
  uint64_t pages;       /* pages of 4096 bytes in use */
};
void ss_near_stats(struct ss_near_stats* stats);

#ifdef __GNUC__
#pragma GCC visibility pop
#endif
#ifdef __cplusplus
}

#if __cplusplus >= 201103L
#include <cstdlib>
#include <limits>
#include <new>
#include <type_traits>

namespace stallscope {

/* For containers that make one node at a time: each node lies near the one made before it, the
 * first one near the hint. Copies of an allocator begin where it is and go their own way. */
template <typename T>
class near_allocator {
 public:
  using value_type = T;
  using is_always_equal = std::true_type; /* whichever allocator may free */

  near_allocator() noexcept = default;
  explicit near_allocator(const void* hint) noexcept : hint_(hint) {}
  template <typename U>
  near_allocator(const near_allocator<U>& other) noexcept : hint_(other.hint()) {}

  T* allocate(std::size_t count) {
    if (count > std::numeric_limits<std::size_t>::max() / sizeof(T)) throw std::bad_alloc();
    std::size_t size = count * sizeof(T);
    void* block = alignof(T) <= 16 ? ss_malloc_near(size, hint_) : aligned(size);
    if (block == nullptr) throw std::bad_alloc();
    hint_ = block;
    return static_cast<T*>(block);
  }
  void deallocate(T* block, std::size_t) noexcept { ss_free_near(block); }
  const void* hint() const noexcept { return hint_; }

 private:
  static void* aligned(std::size_t size) {
    void* block = nullptr;
    return posix_memalign(&block, alignof(T), size) == 0 ? block : nullptr;
  }
  const void* hint_ = nullptr;
};

template <typename T, typename U>
bool operator==(const near_allocator<T>&, const near_allocator<U>&) noexcept {
  return true;
}
template <typename T, typename U>
bool operator!=(const near_allocator<T>&, const near_allocator<U>&) noexcept {
  return false;
}

}  // namespace stallscope
#endif
#endif

#endif
