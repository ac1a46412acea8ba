// SPDX-License-Identifier: Apache-2.0
// Mappings and the break, with a known history. In this order:
//
//   map     16 pages, anonymous
//   unmap   pages 4..7 of it, which leaves two pieces
//   map     2 pages at page 4, over part of the hole (MAP_FIXED)
//   map     1 page of a file (this program), read only
//   remap   the last 8 pages grow to 64, and may move
//   brk     up by 3 pages, then down by 1
//   unmap   everything that was mapped, in 4 calls
//
// printf then takes its buffer, so the C library moves the break once more. Prints what it reads
// back.
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define PAGE 4096
#define READ_WRITE (PROT_READ | PROT_WRITE)

static char* map(void* where, size_t pages, int flags) {
  char* memory = mmap(where, pages * PAGE, READ_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | flags, -1, 0);
  if (memory == MAP_FAILED) _exit(1);
  for (size_t i = 0; i < pages; i++) memory[i * PAGE] = (char)(i + 1);
  return memory;
}

static int sum(const char* memory, size_t pages) {
  int total = 0;
  for (size_t i = 0; i < pages; i++) total += memory[i * PAGE];
  return total;
}

static int move_break(void) {
  char* start = sbrk(3 * PAGE);
  if (start == (void*)-1) _exit(1);
  for (int i = 0; i < 3; i++) start[i * PAGE] = (char)(i + 1);
  sbrk(-PAGE);
  return start[0] + start[PAGE];
}

static int file_starts_as_elf(const char* path, char** mapped) {
  int file = open(path, O_RDONLY);
  *mapped = mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE, file, 0);
  if (*mapped == MAP_FAILED) _exit(1);
  close(file);
  return memcmp(*mapped, "\177ELF", 4) == 0;
}

int main(int argc, char** argv) {
  (void)argc;
  char* memory = map(NULL, 16, 0);
  munmap(memory + 4 * PAGE, 4 * PAGE);
  char* middle = map(memory + 4 * PAGE, 2, MAP_FIXED);
  char* file;
  int elf = file_starts_as_elf(argv[0], &file);
  char* moved = mremap(memory + 8 * PAGE, 8 * PAGE, 64 * PAGE, MREMAP_MAYMOVE);
  if (moved == MAP_FAILED) return 1;
  moved[63 * PAGE] = 100;
  int broken = move_break();
  printf("first=%d middle=%d moved=%d break=%d elf=%d\n", sum(memory, 4), sum(middle, 2),
         sum(moved, 64), broken, elf);
  munmap(memory, 4 * PAGE);
  munmap(middle, 2 * PAGE);
  munmap(moved, 64 * PAGE);
  munmap(file, PAGE);
  return 0;
}
