// SPDX-License-Identifier: Apache-2.0
// A shop that keeps everything in memory: customers in a hash table, by keys that some use more
// often than others, items anywhere, and orders one behind the other.
//
// shop [customers] [items] [orders]
#include "form.h"

#define LINES 4  // items of an order

struct customer {
  struct customer* next;
  uint64_t key, orders, spent;
  char address[224];
};
struct item {
  uint64_t stock, price, sold;
  char text[104];
};
struct order {
  uint64_t customer, total, items[LINES];
};
struct shop {
  struct customer** table;
  struct item* items;
  struct order* orders;
  uint64_t customers, count, room;
};

NOINLINE static struct customer** make_table(uint64_t customers) {
  struct customer** table = must(calloc(customers, sizeof *table));
  return table;
}
NOINLINE static struct customer* make_customer(void) {
  struct customer* customer = must(malloc(sizeof *customer));
  return customer;
}
NOINLINE static struct item* make_items(uint64_t count) {
  struct item* items = must(malloc(count * sizeof *items));
  return items;
}
NOINLINE static struct order* make_orders(uint64_t count) {
  struct order* orders = must(malloc(count * sizeof *orders));
  return orders;
}

NOINLINE static void open_shop(struct shop* shop) {
  for (uint64_t i = 0; i < shop->customers; i++) {
    struct customer* one = make_customer();
    uint64_t place = scatter(i) % shop->customers;
    *one = (struct customer){.next = shop->table[place], .key = i};
    shop->table[place] = one;
  }
  for (uint64_t i = 0; i < shop->count; i++)
    shop->items[i] = (struct item){.stock = 1000, .price = 1 + scatter(i) % 100};
}

NOINLINE static struct customer* find(const struct shop* shop, uint64_t key) {
  struct customer* one = shop->table[scatter(key) % shop->customers];
  while (one->key != key) one = one->next;
  return one;
}

NOINLINE static void sell(struct shop* shop, uint64_t number, uint64_t* state) {
  // The fewer a key, the more often: half of all orders are of a sixteenth of the customers.
  uint64_t key = next_random(state) % shop->customers;
  for (int i = 0; i < 3; i++) {
    uint64_t other = next_random(state) % shop->customers;
    if (other < key) key = other;
  }
  struct customer* customer = find(shop, key);
  struct order* order = &shop->orders[number % shop->room];
  order->customer = key;
  order->total = 0;
  for (int i = 0; i < LINES; i++) {
    uint64_t which = next_random(state) % shop->count;
    struct item* item = &shop->items[which];
    item->stock = item->stock ? item->stock - 1 : 1000;
    item->sold++;
    order->items[i] = which;
    order->total += item->price;
  }
  customer->orders++;
  customer->spent += order->total;
}

NOINLINE static uint64_t close_shop(struct shop* shop) {
  uint64_t sum = 0;
  for (uint64_t i = 0; i < shop->customers; i++)
    while (shop->table[i] != NULL) {
      struct customer* one = shop->table[i];
      shop->table[i] = one->next;
      sum += one->spent * (1 + one->key % 7);
      free(one);
    }
  free(shop->orders);
  free(shop->items);
  free(shop->table);
  return sum;
}

int main(int argc, char** argv) {
  uint64_t customers = argument(argc, argv, 1, 4000), items = argument(argc, argv, 2, 8000);
  uint64_t orders = argument(argc, argv, 3, 20000);
  struct shop shop = {.customers = customers, .count = items, .room = (orders + 3) / 4};
  shop.table = make_table(customers);
  shop.items = make_items(items);
  shop.orders = make_orders(shop.room);
  open_shop(&shop);
  uint64_t state = 1;
  for (uint64_t i = 0; i < orders; i++) sell(&shop, i, &state);
  printf("shop checksum=%llu\n", (unsigned long long)close_shop(&shop));
  return 0;
}
