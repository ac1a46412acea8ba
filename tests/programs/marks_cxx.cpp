// SPDX-License-Identifier: Apache-2.0
// stallscope::Region ends with its scope, also when an exception leaves it.
#include <cstdio>
#include <stdexcept>
#include <vector>

#include "stallscope.h"

static int sum(const std::vector<int>& numbers, bool fail) {
  stallscope::Region region("sum");
  int total = 0;
  for (int number : numbers) total += number;
  if (fail) throw std::runtime_error("left by exception");
  return total;
}

int main() {
  std::vector<int> numbers(1000, 3);
  STALLSCOPE_NAME(numbers.data(), numbers.size() * sizeof(int), "numbers");
  const int total = sum(numbers, false);
  try {
    sum(numbers, true);
  } catch (const std::runtime_error& error) {
    std::printf("sum=%d %s\n", total, error.what());
  }
  return 0;
}
