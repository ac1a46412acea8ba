// SPDX-License-Identifier: Apache-2.0
#include "page.h"

static uint64_t mask_of(unsigned granules) {
  return granules == 64 ? ~UINT64_C(0) : (UINT64_C(1) << granules) - 1;
}

static bool bit(const uint64_t* bits, unsigned index) { return bits[index / 64] >> index % 64 & 1; }

static uint64_t line_bits(const uint64_t* bits, unsigned line) {
  return bits[line / 8] >> line % 8 * 8 & 0xff;
}

bool page_is_free(const struct page* page, unsigned start, unsigned granules) {
  if (start + granules > PAGE_GRANULES) return false;
  unsigned word = start / 64, shift = start % 64;
  uint64_t mask = mask_of(granules);
  if (page->taken[word] & mask << shift) return false;
  return shift + granules <= 64 || !(page->taken[word + 1] & mask >> (64 - shift));
}

int page_find(const struct page* page, unsigned first, unsigned end, unsigned granules,
              unsigned step) {
  unsigned lines = (granules + LINE_GRANULES - 1) / LINE_GRANULES;
  unsigned latest = lines * LINE_GRANULES - granules;
  for (unsigned line = first; line + lines <= end; line++) {
    if (line_bits(page->taken, line) == 0xff) continue;
    for (unsigned offset = 0; offset <= latest; offset += step)
      if (page_is_free(page, line * LINE_GRANULES + offset, granules))
        return (int)(line * LINE_GRANULES + offset);
  }
  return -1;
}

// Inverts the bits [start, start + count).
static void flip(uint64_t* bits, unsigned start, unsigned count) {
  unsigned word = start / 64, shift = start % 64;
  bits[word] ^= mask_of(count) << shift;
  if (shift + count > 64) bits[word + 1] ^= mask_of(count) >> (64 - shift);
}

void page_take(struct page* page, unsigned start, unsigned granules) {
  flip(page->taken, start, granules);
  flip(page->last, start + granules - 1, 1);
  page->used += granules;
}

unsigned page_block(const struct page* page, unsigned start) {
  if (!bit(page->taken, start)) return 0;
  if (start > 0 && bit(page->taken, start - 1) && !bit(page->last, start - 1)) return 0;
  unsigned word = start / 64, shift = start % 64;
  uint64_t ends = page->last[word] >> shift;
  if (ends == 0) return 64 - shift + (unsigned)__builtin_ctzll(page->last[word + 1]) + 1;
  return (unsigned)__builtin_ctzll(ends) + 1;
}

unsigned page_give_back(struct page* page, unsigned start) {
  unsigned granules = page_block(page, start);
  if (granules == 0) return 0;
  flip(page->taken, start, granules);
  flip(page->last, start + granules - 1, 1);
  page->used -= granules;
  return granules;
}

unsigned page_group_lines(enum page_kind kind) {
  switch (kind) {
    case PAGE_ROOM_1:
      return 1;
    case PAGE_ROOM_4:
      return 4;
    default:
      return 2;
  }
}
