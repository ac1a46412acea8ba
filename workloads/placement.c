// SPDX-License-Identifier: Apache-2.0
// A placer: cells, joined by nets, swap places by chance when that makes the nets shorter. A cell
// has a list of three pins; each pin is on a net; a net has a list of four spots, the places of its
// pins. They are made in the order in which a shuffled list of pins mentions them, as when a
// netlist is read, so that the parts of a cell or a net are made at quite different times.
//
// slow: each is a block of malloc, so that the parts of a cell or net are anywhere. near: each lies
// near the one that points to it, by the near allocator.
//
// placement [cells, a multiple of 4] [moves] [slow|near]
#include "form.h"
#include "stallscope_near.h"

#define CELL_PINS 3
#define NET_SPOTS 4
#define ROOM 128  // bytes kept together for a cell or net: almost all of its parts

struct spot {
  struct spot* next;
  int32_t x, y;
};

struct net {
  struct spot* spots;
  int64_t length;
};

struct pin {
  struct pin* next;
  struct net* net;
  struct spot* spot;
};

struct cell {
  struct pin* pins;
  int32_t x, y;
};

static int near_form;

// Written out at each place that makes blocks, so that it is that place that made them.
#define MAKE(size, hint) must(near_form ? ss_malloc_near(size, hint) : malloc(size))
#define MAKE_WITH_ROOM(size) must(near_form ? ss_malloc_near_room(size, ROOM) : malloc(size))

NOINLINE static struct cell* make_cell(uint64_t number, int32_t width) {
  struct cell* cell = MAKE_WITH_ROOM(sizeof *cell);
  *cell = (struct cell){NULL, (int32_t)number % width, (int32_t)number / width};
  return cell;
}

NOINLINE static struct net* make_net(void) {
  struct net* net = MAKE_WITH_ROOM(sizeof *net);
  *net = (struct net){NULL, 0};
  return net;
}

NOINLINE static struct spot* make_spot(struct net* net, const struct cell* cell) {
  struct spot* spot = MAKE(sizeof *spot, net);
  *spot = (struct spot){net->spots, cell->x, cell->y};
  return net->spots = spot;
}

NOINLINE static void make_pin(struct cell* cell, struct net* net, struct spot* spot) {
  struct pin* pin = MAKE(sizeof *pin, cell);
  *pin = (struct pin){cell->pins, net, spot};
  cell->pins = pin;
}

NOINLINE static uint32_t* make_order(uint64_t count, uint64_t seed) {
  uint32_t* order = must(malloc(count * sizeof *order));
  for (uint64_t i = 0; i < count; i++) order[i] = (uint32_t)i;
  for (uint64_t i = count - 1; i > 0; i--) {
    uint64_t j = scatter(seed + i) % (i + 1);
    uint32_t held = order[i];
    order[i] = order[j];
    order[j] = held;
  }
  return order;
}

NOINLINE static void read_netlist(struct cell** cells, struct net** nets, uint64_t pins,
                                  int32_t width) {
  uint32_t* order = make_order(pins, 1 << 20);
  uint32_t* partner = make_order(pins, 2 << 20);
  for (uint64_t i = 0; i < pins; i++) {
    uint64_t c = order[i] / CELL_PINS, n = partner[i] / NET_SPOTS;
    if (cells[c] == NULL) cells[c] = make_cell(c, width);
    if (nets[n] == NULL) nets[n] = make_net();
    make_pin(cells[c], nets[n], make_spot(nets[n], cells[c]));
  }
  free(order);
  free(partner);
}

// Half the way around all spots of a net.
NOINLINE static int64_t measure(const struct spot* spot) {
  int32_t left = spot->x, right = spot->x, low = spot->y, high = spot->y;
  while ((spot = spot->next) != NULL) {
    left = spot->x < left ? spot->x : left;
    right = spot->x > right ? spot->x : right;
    low = spot->y < low ? spot->y : low;
    high = spot->y > high ? spot->y : high;
  }
  return right - left + high - low;
}

NOINLINE static void move(struct cell* cell, int32_t x, int32_t y) {
  cell->x = x;
  cell->y = y;
  for (struct pin* pin = cell->pins; pin != NULL; pin = pin->next) {
    pin->spot->x = x;
    pin->spot->y = y;
  }
}

// Measures the nets of a cell anew and returns by how much they grew.
NOINLINE static int64_t remeasure(const struct cell* cell) {
  int64_t grown = 0;
  for (const struct pin* pin = cell->pins; pin != NULL; pin = pin->next) {
    int64_t length = measure(pin->net->spots);
    grown += length - pin->net->length;
    pin->net->length = length;
  }
  return grown;
}

NOINLINE static int64_t swap(struct cell* a, struct cell* b) {
  int32_t x = a->x, y = a->y;
  move(a, b->x, b->y);
  move(b, x, y);
  return remeasure(a) + remeasure(b);
}

// Returns how long all nets are in the end, and adds up how often cells swapped.
NOINLINE static int64_t anneal(struct cell** cells, uint64_t count, uint64_t moves,
                               uint64_t* swaps) {
  int64_t length = 0;
  uint64_t state = 3;
  for (uint64_t i = 0; i < count; i++) length += remeasure(cells[i]);
  for (uint64_t i = 0; i < moves; i++) {
    struct cell* a = cells[next_random(&state) % count];
    struct cell* b = cells[next_random(&state) % count];
    int64_t grown = swap(a, b);
    *swaps += 1;
    if (grown > 0 && next_random(&state) % 8 != 0) {
      grown += swap(a, b);
      *swaps += 1;
    }
    length += grown;
  }
  return length;
}

NOINLINE static void free_all(struct cell** cells, uint64_t count, struct net** nets,
                              uint64_t net_count) {
  for (uint64_t i = 0; i < count; i++) {
    for (struct pin *pin = cells[i]->pins, *next; pin != NULL; pin = next) {
      next = pin->next;
      ss_free_near(pin);
    }
    ss_free_near(cells[i]);
  }
  for (uint64_t i = 0; i < net_count; i++) {
    for (struct spot *spot = nets[i]->spots, *next; spot != NULL; spot = next) {
      next = spot->next;
      ss_free_near(spot);
    }
    ss_free_near(nets[i]);
  }
  free(cells);
  free(nets);
}

int main(int argc, char** argv) {
  static const char* const forms[] = {"slow", "near", NULL};
  uint64_t count = argument(argc, argv, 1, 20000), moves = argument(argc, argv, 2, 100000);
  near_form = form_argument(argc, argv, 3, forms);
  if (count % NET_SPOTS != 0 || count > 1 << 20) {
    fprintf(stderr, "%s: cells are a multiple of %d, at most %d\n", argv[0], NET_SPOTS, 1 << 20);
    return 2;
  }
  int32_t width = 1;
  while ((uint64_t)width * (uint64_t)width < count) width++;
  uint64_t net_count = count * CELL_PINS / NET_SPOTS;
  struct cell** cells = must(calloc(count, sizeof *cells));
  struct net** nets = must(calloc(net_count, sizeof *nets));
  read_netlist(cells, nets, count * CELL_PINS, width);
  uint64_t swaps = 0;
  int64_t length = anneal(cells, count, moves, &swaps);
  printf("placement swaps=%llu checksum=%llu\n", (unsigned long long)swaps,
         (unsigned long long)length);
  free_all(cells, count, nets, net_count);
  return 0;
}
