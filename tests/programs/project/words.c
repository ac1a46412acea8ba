// SPDX-License-Identifier: Apache-2.0
#include "project.h"

const char* word(int number) {
  static const char* const words[] = {"none", "one", "two", "three", "four"};
  return number >= 0 && number < 5 ? words[number] : "many";
}
