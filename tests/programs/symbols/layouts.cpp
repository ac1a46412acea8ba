// SPDX-License-Identifier: Apache-2.0
// Classes of every shape that C++ has, for tests of layouts.
#include <cstdint>
#include <cstdio>
#include <memory>
#include <vector>

namespace shapes {

struct Empty {};

struct Base {
  std::uint32_t id;
  char mark;
  static int count;
};
int Base::count;

struct Other {
  double weight;
};

class Derived : public Base, private Other, Empty {
 public:
  std::uint16_t small;
  const char* name;
  struct Inner {
    int a, b;
  } inner[2];
};

struct Virtual {
  virtual ~Virtual() = default;
  int value;
};

struct Shape : Virtual {
  double area;
};

struct Left : virtual Virtual {
  int left;
};

template <typename T, int N>
struct Grid {
  T cells[N];
  Grid* next;
};

// The tail of Base is not reused by a class with public members of its own, that of this one is.
class Tail {
 public:
  Tail() : word(1), byte(2) {}
  std::uint32_t sum() const { return word + byte; }

 private:
  std::uint32_t word;
  char byte;
};
struct InTail : Tail {
  char used;
};

}  // namespace shapes

shapes::Derived derived;
shapes::Shape shape;
shapes::Left left;
shapes::Grid<shapes::Base, 3> grid;
shapes::InTail in_tail;
std::vector<shapes::Base> bases;
std::unique_ptr<shapes::Derived> owned;

int main() {
  std::printf("%zu %zu %zu\n", sizeof derived, sizeof left, bases.size());
  return owned != nullptr || in_tail.sum() == 0 || shape.area != 0 || left.left || grid.next;
}
