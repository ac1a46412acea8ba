// SPDX-License-Identifier: Apache-2.0
// One process, four images: executes itself twice, then /bin/true. Start it by a path, because it
// starts itself by argv[0].
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int main(int argc, char** argv) {
  int link = argc > 1 ? atoi(argv[1]) : 0;
  printf("image %d\n", link);
  fflush(stdout);
  char next[12];
  snprintf(next, sizeof next, "%d", link + 1);
  if (link < 2)
    execl(argv[0], argv[0], next, (char*)NULL);
  else
    execl("/bin/true", "true", (char*)NULL);
  perror("exec");
  return 1;
}
