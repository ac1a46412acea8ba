// SPDX-License-Identifier: Apache-2.0
// Copies standard input to standard output line by line, numbered, and says something on standard
// error at every thousandth line; the end of each stream carries the totals. Large input makes
// large output, through pipes, files or a terminal.
#include <stdio.h>
#include <string.h>

int main(void) {
  static char line[65536];
  unsigned long lines = 0, bytes = 0;
  while (fgets(line, sizeof line, stdin) != NULL) {
    bytes += strlen(line);
    printf("%lu %s", ++lines, line);
    if (lines % 1000 == 0) {
      fflush(stdout);
      fprintf(stderr, "line %lu\n", lines);
    }
  }
  printf("lines=%lu bytes=%lu\n", lines, bytes);
  fflush(stdout);
  fprintf(stderr, "end of %lu lines\n", lines);
  return 0;
}
