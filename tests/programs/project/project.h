// SPDX-License-Identifier: Apache-2.0
#ifndef PROJECT_H
#define PROJECT_H
int add(int left, int right);
int multiply(int left, int right);
const char* word(int number);
#endif
