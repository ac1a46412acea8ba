// SPDX-License-Identifier: Apache-2.0
// Heap blocks of classes: one by one, in an array with a count in front of it, in a vector, in a
// map, and derived ones behind pointers to their base.
#include <cstdint>
#include <cstdio>
#include <map>
#include <memory>
#include <vector>

#define NOINLINE __attribute__((noinline))

namespace world {

struct Body {
  std::uint64_t mass = 1;
  double speed[2] = {0, 0};
  Body* next = nullptr;
};

// A destructor that does something makes `new []` keep a count in front of the array.
struct Counted {
  std::uint64_t a = 1, b = 2, c = 3;
  ~Counted() { destroyed += a; }
  static std::uint64_t destroyed;
};
std::uint64_t Counted::destroyed;

struct Shape {
  virtual ~Shape() = default;
  virtual double area() const = 0;
  double scale = 2;
};

struct Square : Shape {
  double side = 3;
  NOINLINE double area() const override { return side * side * scale; }
};

NOINLINE Body* chain(int count) {
  Body* list = nullptr;
  for (int i = 0; i < count; i++) {
    Body* body = new Body;
    body->next = list;
    list = body;
  }
  return list;
}

NOINLINE std::uint64_t weigh(const Body* list) {
  std::uint64_t sum = 0;
  for (; list != nullptr; list = list->next) sum += list->mass;
  return sum;
}

NOINLINE std::uint64_t add_c(const Counted* all, int count) {
  std::uint64_t sum = 0;
  for (int i = 0; i < count; i++) sum += all[i].c;
  return sum;
}

NOINLINE double speeds(const std::vector<Body>& bodies) {
  double sum = 0;
  for (const Body& body : bodies) sum += body.speed[1];
  return sum;
}

NOINLINE double areas(const std::vector<std::unique_ptr<Shape>>& shapes) {
  double sum = 0;
  for (const auto& shape : shapes) sum += shape->area();
  return sum;
}

NOINLINE std::vector<std::unique_ptr<Shape>> squares(int count) {
  std::vector<std::unique_ptr<Shape>> shapes;
  for (int i = 0; i < count; i++) shapes.push_back(std::make_unique<Square>());
  return shapes;
}

}  // namespace world

int main() {
  constexpr int kCount = 2000;
  world::Body* list = world::chain(kCount);
  std::uint64_t mass = 0;
  for (int i = 0; i < 4; i++) mass += world::weigh(list);
  auto* counted = new world::Counted[kCount];
  std::uint64_t sum = 0;
  for (int i = 0; i < 4; i++) sum += world::add_c(counted, kCount);
  delete[] counted;
  std::vector<world::Body> bodies(kCount);
  double speed = 0;
  for (int i = 0; i < 4; i++) speed += world::speeds(bodies);
  auto shapes = world::squares(kCount);
  double area = 0;
  for (int i = 0; i < 4; i++) area += world::areas(shapes);
  std::map<int, world::Body> tree;
  for (int i = 0; i < kCount; i++) tree[i * 7919 % kCount].mass = 5;
  for (const auto& [number, body] : tree) mass += body.mass + number % 2;
  std::printf("mass=%llu sum=%llu speed=%.0f area=%.0f\n", (unsigned long long)mass,
              (unsigned long long)sum, speed, area);
  return 0;
}
