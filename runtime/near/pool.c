// SPDX-License-Identifier: Apache-2.0
#include "pool.h"

// Overflow pages that are tried for one block before it goes anywhere.
enum { HOPS = 4 };

static const struct place NOWHERE = {0, 0};

struct wish wish_for(size_t size) {
  unsigned granules = (unsigned)((size + GRANULE_BYTES - 1) / GRANULE_BYTES);
  return (struct wish){granules, size % 16 == 0 ? 2 : 1};
}

static struct page* info(const struct pool* pool, page_number number) {
  return pool->source->infos + (number - 1);
}

static struct place take(struct pool* pool, page_number number, int start, struct wish wish) {
  page_take(info(pool, number), (unsigned)start, wish.granules);
  return (struct place){number, (unsigned)start};
}

static page_number pop(struct pool* pool, page_number* list) {
  page_number number = *list;
  if (number) {
    *list = info(pool, number)->next;
    info(pool, number)->listed = false;
  }
  return number;
}

static void push(struct pool* pool, page_number* list, page_number number) {
  info(pool, number)->next = *list;
  info(pool, number)->listed = true;
  *list = number;
}

// A page may become empty in the list of its kind. Another kind takes it from there when it comes
// to the head, as after many blocks of one kind were freed.
static page_number empty_page(struct pool* pool) {
  page_number number = pop(pool, &pool->empty);
  for (int kind = PAGE_DENSE; kind < PAGE_KINDS && number == 0; kind++) {
    page_number head = pool->roomy[kind];
    if (head && info(pool, head)->used == 0) return pop(pool, &pool->roomy[kind]);
  }
  if (number == 0) number = pool->source->take(pool->source, pool->number);
  if (number) pool->stats.pages++;
  return number;
}

// Makes a page with much free space the current one of its kind; 0 when there is no memory.
static page_number renew(struct pool* pool, enum page_kind kind) {
  page_number number = pop(pool, &pool->roomy[kind]);
  if (number == 0) {
    number = empty_page(pool);
    if (number == 0) return 0;
    info(pool, number)->kind = (uint8_t)kind;
    info(pool, number)->overflow = 0;
  }
  pool->current[kind] = number;
  pool->cursor[kind] = 0;
  return number;
}

static int find_except(const struct page* page, unsigned first, unsigned avoided,
                       struct wish wish) {
  if (avoided >= PAGE_LINES) return page_find(page, first, PAGE_LINES, wish.granules, wish.step);
  int start = page_find(page, first, avoided, wish.granules, wish.step);
  if (start >= 0) return start;
  unsigned after = first > avoided ? first : avoided + 1;
  return page_find(page, after, PAGE_LINES, wish.granules, wish.step);
}

struct place pool_dense(struct pool* pool, unsigned avoided, struct wish wish) {
  page_number number = pool->current[PAGE_DENSE];
  if (number == 0) number = renew(pool, PAGE_DENSE);
  for (; number != 0; number = renew(pool, PAGE_DENSE)) {
    const struct page* page = info(pool, number);
    int start = find_except(page, pool->cursor[PAGE_DENSE], avoided, wish);
    if (start < 0) start = find_except(page, 0, avoided, wish);
    if (start < 0) continue;
    pool->cursor[PAGE_DENSE] = (unsigned)start / LINE_GRANULES;
    return take(pool, number, start, wish);
  }
  return NOWHERE;
}

struct place pool_room(struct pool* pool, enum page_kind kind, struct wish wish) {
  unsigned lines = page_group_lines(kind);
  page_number number = pool->current[kind];
  if (number == 0) number = renew(pool, kind);
  for (; number != 0; number = renew(pool, kind))
    for (unsigned line = pool->cursor[kind]; line < PAGE_LINES; line += lines) {
      pool->cursor[kind] = line + lines;
      unsigned start = line * LINE_GRANULES;
      if (page_is_free(info(pool, number), start, lines * LINE_GRANULES))
        return take(pool, number, (int)start, wish);
    }
  return NOWHERE;
}

// The line, or else its group.
static int find_beside(const struct page* page, unsigned line, struct wish wish) {
  int start = page_find(page, line, line + 1, wish.granules, wish.step);
  if (start >= 0) return start;
  unsigned lines = page_group_lines(page->kind), first = line / lines * lines;
  return page_find(page, first, first + lines, wish.granules, wish.step);
}

// The page that takes what overflows from this one. It serves other pages too, as long as it is at
// most half full when they first need one.
static page_number overflow_of(struct pool* pool, page_number number) {
  struct page* page = info(pool, number);
  page_number next = page->overflow;
  if (next && info(pool, next)->kind == PAGE_OVERFLOW) {
    // A page that is as good as full would be tried in vain each time.
    page_number further = info(pool, next)->overflow;
    if (info(pool, next)->used > PAGE_GRANULES * 7 / 8 && further &&
        info(pool, further)->kind == PAGE_OVERFLOW && further != number)
      page->overflow = next = further;
    return next;
  }
  next = pool->current[PAGE_OVERFLOW];
  if (next == 0 || next == number || info(pool, next)->used > PAGE_GRANULES / 2)
    next = renew(pool, PAGE_OVERFLOW);
  if (next == number) next = renew(pool, PAGE_OVERFLOW);
  return page->overflow = next;
}

// Blocks that overflow from one line meet in one line of the overflow page, half a page away: in a
// cache whose ways are pages, that is as far from the hint's set as can be.
static struct place overflow(struct pool* pool, page_number number, unsigned line,
                             struct wish wish) {
  unsigned opposite = (line + PAGE_LINES / 2) % PAGE_LINES;
  for (int hop = 0; hop < HOPS; hop++) {
    number = overflow_of(pool, number);
    if (number == 0) return NOWHERE;
    const struct page* page = info(pool, number);
    int start = find_beside(page, opposite, wish);
    if (start < 0) start = find_except(page, 0, line, wish);
    if (start >= 0) return take(pool, number, start, wish);
  }
  return pool_dense(pool, line, wish);
}

static void count(struct pool* pool, struct place from, struct place to) {
  struct ss_near_stats* stats = &pool->stats;
  unsigned line = from.start, there = to.start / LINE_GRANULES;
  unsigned group = page_group_lines(info(pool, from.page)->kind);
  if (to.page != from.page)
    *(there == line ? &stats->conflicting : &stats->apart) += 1;
  else if (there == line)
    stats->same_line++;
  else
    *(there / group == line / group ? &stats->same_group : &stats->same_page) += 1;
}

static struct place pool_near(struct pool* pool, page_number number, unsigned line,
                              struct wish wish) {
  const struct page* page = info(pool, number);
  struct place place = NOWHERE;
  int start = find_beside(page, line, wish);
  // The lines of other groups of a page with room are kept for others.
  if (start < 0 && (page->kind == PAGE_DENSE || page->kind == PAGE_OVERFLOW))
    start = page_find(page, 0, PAGE_LINES, wish.granules, wish.step);
  place = start >= 0 ? take(pool, number, start, wish) : overflow(pool, number, line, wish);
  if (place.page) count(pool, (struct place){number, line}, place);
  return place;
}

struct place pool_place(struct pool* pool, page_number number, unsigned line, struct wish wish) {
  // A hint may be an address that was freed, and its page one of no kind by now.
  if (number && info(pool, number)->kind != PAGE_FREE) return pool_near(pool, number, line, wish);
  struct place place = pool_dense(pool, NO_LINE, wish);
  pool->stats.unhinted += place.page != 0;
  return place;
}

unsigned pool_free(struct pool* pool, page_number number, unsigned start) {
  struct page* page = info(pool, number);
  unsigned granules = page_give_back(page, start);
  if (granules == 0) return 0;
  pool->stats.freed++;
  if (page->listed || pool->current[page->kind] == number) return granules;
  if (page->used == 0) {
    page->kind = PAGE_FREE;
    pool->stats.pages--;
    push(pool, &pool->empty, number);
  } else if (page->used <= PAGE_GRANULES / 2) {
    push(pool, &pool->roomy[page->kind], number);
  }
  return granules;
}
