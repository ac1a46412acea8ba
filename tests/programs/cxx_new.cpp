// SPDX-License-Identifier: Apache-2.0
// Every form of new and delete of C++17, with numbers that a recording must show exactly: 8 blocks
// by operator new (1 plain, 1 nothrow, 1 aligned, 1 aligned nothrow, 4 elements of a vector that
// grows by 1, 2, 3, 4), 4 by operator new[], all freed; a new that fails and throws bad_alloc, and
// one that fails and returns null. The exception object that is thrown is a malloc of the C++ run
// time, as are its emergency pool and printf's buffer.
#include <cstdio>
#include <limits>
#include <new>
#include <vector>

namespace {

struct alignas(128) Wide {
  char bytes[256];
};

volatile std::size_t huge = std::numeric_limits<std::ptrdiff_t>::max() / 2;
void* volatile sink;

template <typename T>
T* keep(T* block) {
  sink = const_cast<void*>(static_cast<const volatile void*>(block));
  return static_cast<T*>(sink);
}

void singles() {
  delete keep(new int(1));
  int* quiet = keep(new (std::nothrow) int(2));
  ::operator delete(quiet, std::nothrow);
  delete keep(new Wide);
  Wide* quiet_wide = keep(new (std::nothrow) Wide);
  ::operator delete(quiet_wide, std::align_val_t(alignof(Wide)), std::nothrow);
}

void arrays() {
  delete[] keep(new int[10]);
  int* quiet = keep(new (std::nothrow) int[20]);
  ::operator delete[](quiet, std::nothrow);
  delete[] keep(new Wide[3]);
  Wide* quiet_wide = keep(new (std::nothrow) Wide[4]);
  ::operator delete[](quiet_wide, std::align_val_t(alignof(Wide)), std::nothrow);
}

std::size_t vectors() {
  std::vector<int> numbers;
  for (std::size_t size = 1; size <= 4; size++) {
    numbers.reserve(size);
    numbers.push_back(static_cast<int>(size));
    keep(numbers.data());
  }
  return numbers.size();
}

bool throws() {
  try {
    delete[] keep(new char[huge]);
  } catch (const std::bad_alloc&) {
    return true;
  }
  return false;
}

}  // namespace

int main() {
  singles();
  arrays();
  const std::size_t size = vectors();
  const bool thrown = throws();
  const bool null = keep(new (std::nothrow) char[huge]) == nullptr;
  std::printf("vector=%zu thrown=%d null=%d\n", size, thrown, null);
  return 0;
}
