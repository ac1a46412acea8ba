// SPDX-License-Identifier: Apache-2.0
// Code made at run time: written to a mapping that is then made executable, run, rewritten in place
// and run again. A recorder that believes in the first bytes gives the wrong answer. With an
// argument it leaves that as the code's name where profilers look for it.
#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

// mov eax, number; ret
static void write_code(unsigned char* code, int32_t number) {
  code[0] = 0xb8;
  memcpy(code + 1, &number, 4);
  code[5] = 0xc3;
}

static void leave_name(const void* code, const char* name) {
  char path[64];
  snprintf(path, sizeof path, "/tmp/perf-%d.map", (int)getpid());
  FILE* map = fopen(path, "w");
  if (map == NULL) return;
  fprintf(map, "%lx %x %s\n", (unsigned long)code, 6, name);
  fclose(map);
}

int main(int argc, char** argv) {
  unsigned char* code =
      mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (code == MAP_FAILED) return 1;
  if (argc > 1) leave_name(code, argv[1]);
  for (int32_t number = 1; number <= 3; number++) {
    if (mprotect(code, 4096, PROT_READ | PROT_WRITE) != 0) return 1;
    write_code(code, number * 1111);
    if (mprotect(code, 4096, PROT_READ | PROT_EXEC) != 0) return 1;
    int (*function)(void);
    memcpy(&function, &code, sizeof function);
    int sum = 0;
    for (int i = 0; i < 100; i++) sum += function();
    printf("sum=%d\n", sum);
  }
  return munmap(code, 4096);
}
