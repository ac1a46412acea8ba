// SPDX-License-Identifier: Apache-2.0
// Many small heap blocks that come and go. Each step picks a slot, frees or grows what lies there,
// and puts a block of a size from a fixed mix in its place; at the end every block is freed. The
// number of live blocks is bounded by the number of slots.
//
// churn [steps] [slots, at most 65536]
#include "random.h"

#define MOST_SLOTS 65536

struct slot {
  unsigned char* block;
  uint64_t size;
};

struct slot slots[MOST_SLOTS];

struct counts {
  uint64_t small, medium, large, grown, checksum;
};

// One function a size class, so that each has an allocation path of its own.
NOINLINE static void allocate_small(struct slot* slot, uint64_t random) {
  slot->size = 8 + random % 57;
  slot->block = must(malloc(slot->size));
}

NOINLINE static void allocate_medium(struct slot* slot, uint64_t random) {
  slot->size = 65 + random % 448;
  slot->block = must(calloc(1, slot->size));
}

NOINLINE static void allocate_large(struct slot* slot, uint64_t random) {
  slot->size = 513 + random % 3584;
  slot->block = must(malloc(slot->size));
}

NOINLINE static void grow(struct slot* slot) {
  slot->size += slot->size / 2;
  slot->block = must(realloc(slot->block, slot->size));
}

NOINLINE static uint64_t release(struct slot* slot) {
  uint64_t read = slot->block[0] + 256u * slot->block[slot->size - 1];
  free(slot->block);
  slot->block = NULL;
  return read;
}

static void step(struct slot* slot, uint64_t random, struct counts* counts) {
  uint64_t choice = random % 100;
  if (slot->block != NULL && choice < 10 && slot->size < 8192) {
    counts->grown++;
    grow(slot);
  } else {
    if (slot->block != NULL) counts->checksum = counts->checksum * 3 + release(slot);
    if (choice < 70) {
      counts->small++;
      allocate_small(slot, random >> 32);
    } else if (choice < 95) {
      counts->medium++;
      allocate_medium(slot, random >> 32);
    } else {
      counts->large++;
      allocate_large(slot, random >> 32);
    }
  }
  slot->block[0] = (unsigned char)choice;
  slot->block[slot->size - 1] = (unsigned char)(random >> 24);
}

int main(int argc, char** argv) {
  uint64_t steps = argument(argc, argv, 1, 1000000), count = argument(argc, argv, 2, 4096);
  if (count > MOST_SLOTS) {
    fprintf(stderr, "%s: at most %d slots, please\n", argv[0], MOST_SLOTS);
    return 2;
  }
  struct counts counts = {0, 0, 0, 0, 0};
  uint64_t state = 1;
  for (uint64_t i = 0; i < steps; i++) {
    uint64_t random = next_random(&state);
    step(&slots[(random >> 7) % count], random, &counts);
  }
  for (uint64_t i = 0; i < count; i++)
    if (slots[i].block != NULL) counts.checksum = counts.checksum * 3 + release(&slots[i]);
  printf("churn small=%llu medium=%llu large=%llu grown=%llu checksum=%llu\n",
         (unsigned long long)counts.small, (unsigned long long)counts.medium,
         (unsigned long long)counts.large, (unsigned long long)counts.grown,
         (unsigned long long)counts.checksum);
  return 0;
}
