// SPDX-License-Identifier: Apache-2.0
// A min-cost flow by the network simplex method: arcs and nodes are structs, and the spanning tree
// runs through pointers in the nodes. Each pivot prices a block of arcs, read in order; the
// potentials of the nodes at their ends are anywhere and miss most.
//
// flow [nodes] [arcs] [pivots at most]
#include "random.h"

#define BLOCK 4096
#define EXPENSIVE 1000000000

struct arc;

struct node {
  int64_t potential;
  struct node *parent, *child, *left, *right;  // right and left: siblings
  int64_t depth;
  int64_t carried;   // by the arc to the parent
  uint64_t upwards;  // that arc points to the parent
};

struct arc {
  struct node *tail, *head;
  int64_t cost;
};

struct node* nodes;  // the first is the root, which no arc of the network touches
struct arc* arcs;

NOINLINE static void make_network(uint64_t node_count, uint64_t arc_count) {
  nodes = must(calloc(node_count + 1, sizeof *nodes));
  arcs = must(malloc(arc_count * sizeof *arcs));
  uint64_t state = 1;
  for (uint64_t i = 1; i <= node_count; i++) {
    struct node* node = &nodes[i];
    node->parent = nodes;
    node->depth = 1;
    node->carried = 1;
    node->upwards = i % 2;  // odd nodes have one unit to give, even ones take it
    node->potential = node->upwards ? EXPENSIVE : -EXPENSIVE;
    node->right = nodes->child;
    if (nodes->child != NULL) nodes->child->left = node;
    nodes->child = node;
  }
  for (uint64_t i = 0; i < arc_count; i++) {
    arcs[i].tail = &nodes[1 + next_random(&state) % node_count];
    arcs[i].head = &nodes[1 + next_random(&state) % node_count];
    arcs[i].cost = 1 + (int64_t)(next_random(&state) % 1000);
  }
}

// The arc of a block whose use saves most, or NULL.
NOINLINE static struct arc* price(struct arc* at, struct arc* end) {
  struct arc* best = NULL;
  int64_t least = 0;
  for (; at < end; at++) {
    int64_t reduced = at->cost - at->tail->potential + at->head->potential;
    if (reduced >= least) continue;
    least = reduced;
    best = at;
  }
  return best;
}

// The node below the arc that limits the flow round the cycle which `entering` closes.
NOINLINE static struct node* leaving_of(const struct arc* entering, int64_t* amount) {
  struct node *back = entering->tail, *ahead = entering->head, *leaving = NULL;
  *amount = INT64_MAX;
  while (back != ahead) {
    int from_back = back->depth >= ahead->depth;
    struct node* node = from_back ? back : ahead;
    if (node->upwards == (uint64_t)from_back && node->carried < *amount) {
      *amount = node->carried;
      leaving = node;
    }
    if (from_back)
      back = back->parent;
    else
      ahead = ahead->parent;
  }
  return leaving;
}

// Sends flow round the cycle; whether the node that leaves is on the side of the arc's tail.
NOINLINE static int send(const struct arc* entering, const struct node* leaving, int64_t amount) {
  struct node *back = entering->tail, *ahead = entering->head;
  int on_back = 0;
  while (back != ahead) {
    int from_back = back->depth >= ahead->depth;
    struct node* node = from_back ? back : ahead;
    node->carried += node->upwards == (uint64_t)from_back ? -amount : amount;
    if (node == leaving) on_back = from_back;
    if (from_back)
      back = back->parent;
    else
      ahead = ahead->parent;
  }
  return on_back;
}

static void unlink_node(struct node* node) {
  if (node->left != NULL)
    node->left->right = node->right;
  else
    node->parent->child = node->right;
  if (node->right != NULL) node->right->left = node->left;
}

static void link_node(struct node* node, struct node* parent) {
  node->parent = parent;
  node->left = NULL;
  node->right = parent->child;
  if (parent->child != NULL) parent->child->left = node;
  parent->child = node;
}

// Hangs the subtree below `leaving` from `parent`, by its node `node`.
NOINLINE static void hang(struct node* node, struct node* parent, const struct node* leaving,
                          uint64_t upwards, int64_t carried) {
  for (;;) {
    struct node* above = node->parent;
    uint64_t old_upwards = node->upwards;
    int64_t old_carried = node->carried;
    unlink_node(node);
    link_node(node, parent);
    node->upwards = upwards;
    node->carried = carried;
    if (node == leaving) return;
    upwards = !old_upwards;
    carried = old_carried;
    parent = node;
    node = above;
  }
}

// Everything in the subtree is as much dearer, and lies as deep as its place says.
NOINLINE static void update(struct node* top, int64_t dearer) {
  struct node* node = top;
  for (;;) {
    node->potential += dearer;
    node->depth = node->parent->depth + 1;
    if (node->child != NULL) {
      node = node->child;
      continue;
    }
    while (node != top && node->right == NULL) node = node->parent;
    if (node == top) return;
    node = node->right;
  }
}

static void pivot(const struct arc* entering) {
  int64_t amount, reduced = entering->cost - entering->tail->potential + entering->head->potential;
  struct node* leaving = leaving_of(entering, &amount);
  if (leaving == NULL) return;
  int on_back = send(entering, leaving, amount);
  struct node* moved = on_back ? entering->tail : entering->head;
  hang(moved, on_back ? entering->head : entering->tail, leaving, (uint64_t)on_back, amount);
  update(moved, on_back ? reduced : -reduced);
}

NOINLINE static uint64_t solve(uint64_t arc_count, uint64_t pivots) {
  uint64_t done = 0, start = 0;
  for (uint64_t idle = 0; done < pivots && idle < arc_count;) {
    uint64_t size = arc_count - start < BLOCK ? arc_count - start : BLOCK;
    struct arc* entering = price(arcs + start, arcs + start + size);
    start = start + size == arc_count ? 0 : start + size;
    idle = entering == NULL ? idle + size : 0;
    if (entering == NULL) continue;
    pivot(entering);
    done++;
  }
  return done;
}

int main(int argc, char** argv) {
  uint64_t node_count = argument(argc, argv, 1, 10000), arc_count = argument(argc, argv, 2, 60000);
  uint64_t pivots = argument(argc, argv, 3, 1000), checksum = 0;
  make_network(node_count, arc_count);
  uint64_t done = solve(arc_count, pivots);
  for (uint64_t i = 1; i <= node_count; i++)
    checksum = checksum * 3 + (uint64_t)nodes[i].potential + (uint64_t)nodes[i].carried;
  free(nodes);
  free(arcs);
  printf("flow pivots=%llu checksum=%llu\n", (unsigned long long)done,
         (unsigned long long)checksum);
  return 0;
}
