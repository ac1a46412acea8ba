// SPDX-License-Identifier: Apache-2.0
// A database server with several databases in one process, each an auction site, and a thread for
// each connection. A connection browses and bids in its own database; all of them count queries,
// take transaction numbers and write to one log.
//
// auction [connections] [databases] [queries] [seed] [equal|unequal]
#define _GNU_SOURCE
#include "threads.h"

#define ITEMS 512u  // of a database
#define HOT 48u     // of them are bid for all the time
#define BIDS 256u   // kept of a database, the last ones
#define LOG_BYTES 8192u
#define SORT_WORDS 512u  // of a connection's own memory

struct item {
  uint64_t number, price, bids, bidder, seller, ends, views, category;
};

struct bid {
  uint64_t item, price;
};

struct database {
  pthread_mutex_t lock;
  uint64_t bids_made;
  struct item* items;
  struct bid* bids;
};

struct connection {
  pthread_t thread;
  struct database* database;
  uint64_t* sorted;
  uint64_t number, queries, checksum;
  uint64_t padding[24];  // no two connections in a line
};

struct server {
  uint64_t queries;
  uint64_t transactions;
  uint64_t log_end;
  char log[LOG_BYTES];
};

struct server server;  // shared by all threads

NOINLINE static struct item* make_items(void) {
  struct item* items = must(aligned_alloc(128, ITEMS * sizeof *items));
  for (uint64_t i = 0; i < ITEMS; i++)
    items[i] = (struct item){i, 100, 0, 0, scatter(i), i + 7, 0, i % 16};
  return items;
}

NOINLINE static struct bid* make_bids(void) {
  struct bid* bids = must(aligned_alloc(128, BIDS * sizeof *bids));
  memset(bids, 0, BIDS * sizeof *bids);
  return bids;
}

NOINLINE static struct database* make_database(void) {
  struct database* made = must(aligned_alloc(128, 128));
  memset(made, 0, 128);
  pthread_mutex_init(&made->lock, NULL);
  made->items = make_items();
  made->bids = make_bids();
  return made;
}

// Items of one category, best price last: the answer is sorted in the connection's own memory.
NOINLINE static uint64_t browse(struct connection* self, uint64_t category) {
  uint64_t found = 0;
  for (uint64_t i = category; i < ITEMS; i += 16) {
    uint64_t price = self->database->items[i].price, at = found++;
    for (; at > 0 && self->sorted[at - 1] > price; at--) self->sorted[at] = self->sorted[at - 1];
    self->sorted[at] = price;
  }
  return self->sorted[found - 1];
}

NOINLINE static uint64_t place_bid(struct connection* self, uint64_t number) {
  struct database* base = self->database;
  struct item* item = &base->items[number];
  pthread_mutex_lock(&base->lock);
  item->price += 1 + number % 3;
  item->bidder = self->number;
  item->bids++;
  base->bids[base->bids_made++ % BIDS] = (struct bid){number, item->price};
  uint64_t price = item->price;
  pthread_mutex_unlock(&base->lock);
  return price;
}

NOINLINE static void write_log(uint64_t number, uint64_t price) {
  uint64_t at = __atomic_fetch_add(&server.log_end, 16, __ATOMIC_RELAXED) % LOG_BYTES;
  memcpy(server.log + at, &number, 8);
  memcpy(server.log + at + 8, &price, 8);
}

static void* work(void* argument) {
  struct connection* self = argument;
  uint64_t state = self->number << 32;
  start_together();
  for (uint64_t i = 0; i < self->queries; i++) {
    __atomic_fetch_add(&server.queries, 1, __ATOMIC_RELAXED);
    if (i % 8 == 7) self->checksum += browse(self, next_random(&state) % 16);
    uint64_t price = place_bid(self, next_random(&state) % HOT);
    if (i % 4 == 0) {
      uint64_t number = __atomic_fetch_add(&server.transactions, 1, __ATOMIC_RELAXED);
      write_log(number, price);
    }
    self->checksum += price;
  }
  return NULL;
}

int main(int argc, char** argv) {
  uint64_t threads = argument(argc, argv, 1, 8), count = argument(argc, argv, 2, 2);
  uint64_t queries = argument(argc, argv, 3, 2000), seed = argument(argc, argv, 4, 1);
  struct groups groups = make_groups(argc, argv, threads, count, 5);
  struct database** bases = must(malloc(count * sizeof *bases));
  for (uint64_t i = 0; i < count; i++) bases[i] = make_database();
  struct connection* connections = must(calloc(threads, sizeof *connections));
  uint64_t order[MOST_THREADS], bids = 0;
  shuffle(order, threads, seed);
  expect_threads(threads);
  for (uint64_t i = 0; i < threads; i++) {
    uint64_t number = order[i], group = group_of(&groups, number);
    struct connection* one = &connections[number];
    one->number = number + 1;
    one->queries = queries;
    one->database = bases[group];
    one->sorted = must(calloc(SORT_WORDS, sizeof *one->sorted));
    one->thread = start_thread(group, member_of(&groups, number), work, one);
  }
  for (uint64_t i = 0; i < threads; i++) pthread_join(connections[i].thread, NULL);
  for (uint64_t i = 0; i < count; i++) bids += bases[i]->bids_made;
  printf("auction queries=%llu checksum=%llu\n", (unsigned long long)server.queries,
         (unsigned long long)bids);
  return 0;
}
