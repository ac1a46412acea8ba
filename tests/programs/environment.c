// SPDX-License-Identifier: Apache-2.0
// Prints its arguments and its environment, one a line: what a recorder changes of either shows.
#include <stdio.h>

extern char** environ;

int main(int argc, char** argv) {
  for (int i = 0; i < argc; i++) printf("argv[%d]=%s\n", i, argv[i]);
  for (char** entry = environ; *entry != NULL; entry++) printf("%s\n", *entry);
  return 0;
}
