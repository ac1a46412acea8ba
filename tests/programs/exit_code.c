// SPDX-License-Identifier: Apache-2.0
// Exits with the status in its first argument; with a second one, through _exit, so without
// running exit handlers or flushing.
#include <stdlib.h>
#include <unistd.h>

int main(int argc, char** argv) {
  int status = argc > 1 ? atoi(argv[1]) : 0;
  if (argc > 2) _exit(status);
  return status;
}
