// SPDX-License-Identifier: Apache-2.0
// Namespaces, static members, statics in functions, templates and lambdas in C++.
#include <cstdio>

namespace ns {
int table[32];
static long hidden_count = 4;
namespace {
struct Entry {
  int key;
  double weight;
};
Entry entries[6];
__attribute__((noinline)) int nameless(unsigned long index) {
  static int calls = 1;
  entries[index % 6].key += ++calls;
  return entries[index % 6].key;
}
}  // namespace

class Counter {
 public:
  static int total;
  inline static unsigned short inline_total = 9;
  __attribute__((noinline)) int add(int amount) {
    static int additions = 2;
    additions++;
    total += amount + inline_total;
    return additions;
  }
};
int Counter::total = 11;

template <typename T>
struct Box {
  T content;
};
Box<Counter*> boxes[3];
}  // namespace ns

namespace {
inline __attribute__((always_inline)) int doubled(int value) {
  return value * 2 + ns::table[value & 31];
}
}  // namespace

__attribute__((noinline)) int use(int value) {
  static int uses = 1;
  uses += value;
  return doubled(uses);
}

int main(int count, char**) {
  auto local = [count](int more) __attribute__((noinline)) {
    static int lambda_calls = 1;
    return lambda_calls += count + more;
  };
  ns::Counter counter;
  ns::boxes[0].content = &counter;
  std::printf("%d %d %d %d %ld\n", use(count), counter.add(count), ns::nameless(count),
              local(count), ns::hidden_count++);
  return 0;
}
