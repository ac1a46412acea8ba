// SPDX-License-Identifier: Apache-2.0
// The same system calls and page faults over and over: steady ROUNDS
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

int main(int argc, char** argv) {
  const long rounds = argc > 1 ? atol(argv[1]) : 10;
  const int file = open("/dev/null", O_RDWR);
  char bytes[64] = {0};
  int ends[2];
  if (file < 0 || pipe(ends) != 0) return 1;
  long done = 0;
  for (long i = 0; i < rounds; ++i) {
    for (int k = 0; k < 4; ++k) {
      char* pages =
          mmap(NULL, 16 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
      if (pages == MAP_FAILED) return 1;
      for (int j = 0; j < 16; ++j) pages[j * 4096] = 1;
      munmap(pages, 16 * 4096);
    }
    done += write(file, bytes, sizeof bytes) == sizeof bytes;
    done += write(ends[1], bytes, 8) == 8;
    done += read(ends[0], bytes, 8) == 8;
    lseek(file, 0, SEEK_SET);
    close(dup(file));
  }
  printf("done=%ld\n", done);
  return 0;
}
