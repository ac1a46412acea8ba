// SPDX-License-Identifier: Apache-2.0
// Loads a library of its own, calls into it, unloads it, and does all of that again: the second
// load may land at another address. The library lies beside the program.
#include <dlfcn.h>
#include <stdio.h>

static int use(int argument) {
  void* library = dlopen("dlopen_plugin.so", RTLD_NOW | RTLD_LOCAL);
  if (library == NULL) {
    fprintf(stderr, "%s\n", dlerror());
    return -1;
  }
  int (*function)(int);
  *(void**)&function = dlsym(library, "plugin_sum");
  int result = function != NULL ? function(argument) : -1;
  dlclose(library);
  return result;
}

int main(void) {
  for (int i = 1; i <= 3; i++) printf("sum=%d\n", use(i * 100));
  return 0;
}
