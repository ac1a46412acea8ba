// SPDX-License-Identifier: Apache-2.0
// LZW compression of made-up text: for each byte, a hash table is asked whether the phrase so far
// and this byte together are a known phrase. 65536 phrases at most, then no more are added.
//
// slow: a phrase's key and its code lie in two tables of 8-byte entries, so each hit touches two
// lines. cured: one table of 4-byte entries. An entry's place tells most of the key, so it need
// only keep the rest of it, how far it is from the place where it belongs, and the code.
//
// lzw [bytes, at most 4194304] [passes] [slow|cured]
#include "form.h"

#define LARGEST 4194304
#define SLOTS 131072
#define SLOT_BITS 17
#define KEY_BITS 24  // a code of 16 bits and a byte
#define DISTANCE_BITS 9
#define FIRST_CODE 256
#define LAST_CODE 65535

uint8_t orig_text_buffer[LARGEST];
uint16_t comp_text_buffer[LARGEST];
int64_t htab[SLOTS];     // keys, plus 1
int64_t codetab[SLOTS];  // their codes
uint32_t packed_htab[SLOTS];

NOINLINE static void write_text(uint64_t bytes) {
  uint64_t state = 1, at = 0;
  while (at < bytes) {
    uint64_t a = next_random(&state) % 30000, b = next_random(&state) % 30000;
    uint64_t word = a < b ? a : b, letters = 2 + scatter(word) % 8;
    for (uint64_t i = 0; i < letters && at < bytes; i++)
      orig_text_buffer[at++] = (uint8_t)('a' + scatter(word * 16 + i) % 26);
    if (at < bytes) orig_text_buffer[at++] = ' ';
  }
}

// Maps keys to keys, each to another one, so that the low bits are a good place to begin at.
static inline uint32_t mixed(uint32_t key) {
  key = key * 0x9e3779b1u & ((1u << KEY_BITS) - 1);
  return (key ^ key >> 13) * 0x85ebca6bu & ((1u << KEY_BITS) - 1);
}

// Writes codes to comp_text_buffer and returns how many.
NOINLINE static uint64_t compress_slow(uint64_t bytes) {
  uint64_t written = 0;
  uint32_t phrase = orig_text_buffer[0], next = FIRST_CODE;
  for (uint64_t i = 1; i < bytes; i++) {
    uint32_t key = mixed(phrase << 8 | orig_text_buffer[i]), slot = key % SLOTS;
    while (htab[slot] != 0 && htab[slot] != (int64_t)key + 1) slot = (slot + 1) % SLOTS;
    if (htab[slot] != 0) {
      phrase = (uint32_t)codetab[slot];
      continue;
    }
    comp_text_buffer[written++] = (uint16_t)phrase;
    if (next <= LAST_CODE) {
      htab[slot] = (int64_t)key + 1;
      codetab[slot] = next++;
    }
    phrase = orig_text_buffer[i];
  }
  comp_text_buffer[written++] = (uint16_t)phrase;
  return written;
}

// The same with entries of rest of key (7 bits), distance (9 bits) and code (16 bits); codes in the
// table are not 0, so entries are not.
NOINLINE static uint64_t compress_packed(uint64_t bytes) {
  uint64_t written = 0;
  uint32_t phrase = orig_text_buffer[0], next = FIRST_CODE;
  for (uint64_t i = 1; i < bytes; i++) {
    uint32_t key = mixed(phrase << 8 | orig_text_buffer[i]), slot = key % SLOTS;
    uint32_t mark = key >> SLOT_BITS << DISTANCE_BITS, entry;
    while ((entry = packed_htab[slot]) != 0 && entry >> 16 != mark)
      slot = (slot + 1) % SLOTS, mark++;
    if (entry != 0) {
      phrase = entry & 0xffff;
      continue;
    }
    comp_text_buffer[written++] = (uint16_t)phrase;
    if (next <= LAST_CODE) packed_htab[slot] = mark << 16 | next++;
    phrase = orig_text_buffer[i];
  }
  comp_text_buffer[written++] = (uint16_t)phrase;
  return written;
}

NOINLINE static uint64_t sum_up(uint64_t codes, uint64_t sum) {
  for (uint64_t i = 0; i < codes; i++) sum = sum * 31 + comp_text_buffer[i];
  return sum;
}

int main(int argc, char** argv) {
  static const char* const forms[] = {"slow", "cured", NULL};
  uint64_t bytes = argument(argc, argv, 1, 500000), passes = argument(argc, argv, 2, 2);
  int form = form_argument(argc, argv, 3, forms);
  if (bytes > LARGEST) {
    fprintf(stderr, "%s: at most %d bytes, please\n", argv[0], LARGEST);
    return 2;
  }
  write_text(bytes);
  uint64_t checksum = 0, codes = 0;
  for (uint64_t i = 0; i < passes; i++) {
    memset(htab, 0, form ? 0 : sizeof htab);
    memset(packed_htab, 0, form ? sizeof packed_htab : 0);
    codes = form ? compress_packed(bytes) : compress_slow(bytes);
    checksum = sum_up(codes, checksum);
  }
  printf("lzw codes=%llu checksum=%llu\n", (unsigned long long)codes, (unsigned long long)checksum);
  return 0;
}
