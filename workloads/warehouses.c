// SPDX-License-Identifier: Apache-2.0
// Threads in groups. Each group has a warehouse, a B-tree of stock behind a lock: its members look
// articles up, sell them, and now and then put new ones on the shelf. All of them add their sales
// to one total, and each keeps a ledger of its own.
//
// warehouses [threads] [warehouses] [orders] [seed] [equal|unequal]
#define _GNU_SOURCE
#include "threads.h"

#define KEYS 15         // of a full node
#define ARTICLES 2000u  // of a warehouse in the beginning
#define LEDGER 2048u    // words
#define NEW_EVERY 8     // orders
#define REPORT_EVERY 4  // orders

struct node {
  uint64_t count, keys[KEYS], stock[KEYS];
  struct node* below[KEYS + 1];  // all NULL in a leaf
};

struct warehouse {
  pthread_mutex_t lock;
  struct node* root;
  uint64_t articles, sold;
};

struct worker {
  pthread_t thread;
  struct warehouse* warehouse;
  uint64_t* ledger;
  uint64_t number, orders, checksum;
  uint64_t padding[24];  // no two workers in a line
};

uint64_t total_sales;  // shared by all threads

NOINLINE static struct node* make_node(void) {
  struct node* node = must(aligned_alloc(64, sizeof(struct node)));
  memset(node, 0, sizeof *node);
  return node;
}

// A full child becomes two, and its middle key moves up.
static void split(struct node* node, uint64_t at) {
  struct node *left = node->below[at], *right = make_node();
  uint64_t half = KEYS / 2;
  right->count = KEYS - half - 1;
  memcpy(right->keys, left->keys + half + 1, right->count * sizeof *left->keys);
  memcpy(right->stock, left->stock + half + 1, right->count * sizeof *left->stock);
  memcpy(right->below, left->below + half + 1, (right->count + 1) * sizeof *left->below);
  for (uint64_t i = node->count; i > at; i--) {
    node->keys[i] = node->keys[i - 1];
    node->stock[i] = node->stock[i - 1];
    node->below[i + 1] = node->below[i];
  }
  node->keys[at] = left->keys[half];
  node->stock[at] = left->stock[half];
  node->below[at + 1] = right;
  node->count++;
  left->count = half;
}

NOINLINE static void put(struct warehouse* house, uint64_t key) {
  if (house->root->count == KEYS) {
    struct node* root = make_node();
    root->below[0] = house->root;
    house->root = root;
    split(root, 0);
  }
  struct node* node = house->root;
  for (;;) {
    uint64_t at = 0;
    while (at < node->count && node->keys[at] < key) at++;
    if (node->below[0] == NULL) {
      for (uint64_t i = node->count; i > at; i--) {
        node->keys[i] = node->keys[i - 1];
        node->stock[i] = node->stock[i - 1];
      }
      node->keys[at] = key;
      node->stock[at] = 1;
      node->count++;
      return;
    }
    if (node->below[at]->count == KEYS) {
      split(node, at);
      if (node->keys[at] < key) at++;
    }
    node = node->below[at];
  }
}

NOINLINE static uint64_t sell(struct warehouse* house, uint64_t key) {
  struct node* node = house->root;
  while (node != NULL) {
    uint64_t at = 0;
    while (at < node->count && node->keys[at] < key) at++;
    if (at < node->count && node->keys[at] == key) return ++node->stock[at];
    node = node->below[at];
  }
  return 0;
}

NOINLINE static uint64_t write_ledger(uint64_t* ledger, uint64_t at, uint64_t sold) {
  for (uint64_t i = 0; i < 64; i++) ledger[(at * 64 + i) % LEDGER] += sold + i;
  return ledger[at % LEDGER];
}

static void* work(void* argument) {
  struct worker* self = argument;
  uint64_t state = self->number << 32;
  start_together();
  for (uint64_t i = 0; i < self->orders; i++) {
    struct warehouse* house = self->warehouse;
    pthread_mutex_lock(&house->lock);
    uint64_t sold = sell(house, scatter(next_random(&state) % house->articles));
    if (i % NEW_EVERY == 0) put(house, scatter(house->articles++));
    house->sold++;
    pthread_mutex_unlock(&house->lock);
    self->checksum += write_ledger(self->ledger, i, sold & 1);
    if (i % REPORT_EVERY == 0) __atomic_fetch_add(&total_sales, REPORT_EVERY, __ATOMIC_RELAXED);
  }
  return NULL;
}

NOINLINE static struct warehouse* make_warehouses(uint64_t count) {
  struct warehouse* houses = must(aligned_alloc(128, count * 128));
  memset(houses, 0, count * 128);
  for (uint64_t i = 0; i < count; i++) {
    struct warehouse* house = (struct warehouse*)((char*)houses + i * 128);
    pthread_mutex_init(&house->lock, NULL);
    house->root = make_node();
    for (; house->articles < ARTICLES; house->articles++) put(house, scatter(house->articles));
  }
  return houses;
}

int main(int argc, char** argv) {
  uint64_t threads = argument(argc, argv, 1, 8), count = argument(argc, argv, 2, 2);
  uint64_t orders = argument(argc, argv, 3, 2000), seed = argument(argc, argv, 4, 1);
  struct groups groups = make_groups(argc, argv, threads, count, 5);
  struct warehouse* houses = make_warehouses(count);
  struct worker* workers = must(calloc(threads, sizeof *workers));
  uint64_t order[MOST_THREADS], sold = 0;
  shuffle(order, threads, seed);
  expect_threads(threads);
  for (uint64_t i = 0; i < threads; i++) {
    uint64_t number = order[i], group = group_of(&groups, number);
    struct worker* worker = &workers[number];
    worker->number = number + 1;
    worker->orders = orders;
    worker->warehouse = (struct warehouse*)((char*)houses + group * 128);
    worker->ledger = must(calloc(LEDGER, sizeof *worker->ledger));
    worker->thread = start_thread(group, member_of(&groups, number), work, worker);
  }
  for (uint64_t i = 0; i < threads; i++) pthread_join(workers[i].thread, NULL);
  for (uint64_t i = 0; i < count; i++) sold += ((struct warehouse*)((char*)houses + i * 128))->sold;
  printf("warehouses total_sales=%llu checksum=%llu\n", (unsigned long long)total_sales,
         (unsigned long long)sold);
  return 0;
}
