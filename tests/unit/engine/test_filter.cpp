// SPDX-License-Identifier: Apache-2.0
// The filter against what it promises: whatever it leaves out goes to the line and the page that
// their sets saw last.
#include <doctest.h>

#include <memory>
#include <random>
#include <vector>

#include "machine/gate.h"
#include "sieve/filter.h"

namespace stallscope::machine {
namespace {

constexpr std::uint32_t kGuarded = 0, kPrefetch = 1, kPlain = 2;  // operations

// Accesses of all kinds, most of them near each other.
class Accesses {
 public:
  Accesses(std::uint64_t seed, std::uint64_t base) : random_(seed), base_(base) {}

  void fill(ss_batch& batch) {
    const std::uint64_t kind = random_() % 4;
    batch.data = 1 + random_() % SS_BATCH_ROOM;
    batch.fetches = 0;
    for (std::uint64_t i = 0; i < batch.data; ++i) {
      const bool strange = kind == 0 && random_() % 16 == 0;
      batch.operations[i] = strange ? static_cast<std::uint32_t>(random_() % 2) : kPlain;
      batch.spans[i] = spans[batch.operations[i]];
      batch.addresses[i] = address(kind, i);
      if (strange && batch.operations[i] == kGuarded) batch.addresses[i] = SS_NO_ADDRESS;
    }
  }

  const std::vector<std::uint32_t> sizes = {8, SS_PREFETCH, 8};
  const std::vector<std::uint8_t> spans = {ss_span(8, true), ss_span(SS_PREFETCH, false),
                                           ss_span(8, false)};

 private:
  std::uint64_t address(std::uint64_t kind, std::uint64_t i) {
    const std::uint64_t aligned = kind == 1 ? 0 : 7;
    if (kind == 2)  // two streams, one of them down a column
      return base_ + (i % 2 ? 8 * i : (1 << 20) + 5600 * i);
    if (random_() % 3) return last_;
    const std::uint64_t far = random_() % 8 == 0 ? random_() % (1 << 20) : random_() % 512;
    return last_ = (base_ + far) & ~aligned;
  }

  std::mt19937_64 random_;
  std::uint64_t base_, last_ = 0;
};

// What the sets of a cache and a TLB saw last.
class Seen {
 public:
  explicit Seen(const GateShape& shape)
      : shape_(shape), lines_(shape.lines, ~0ULL), pages_(shape.pages, ~0ULL) {}

  // Whether what is marked may be all that has to be looked up.
  bool allows(std::uint64_t address, std::uint64_t last, unsigned marks) {
    bool fine = true;
    for (std::uint64_t line = address >> shape_.line_bits; line <= last >> shape_.line_bits; ++line)
      fine &= (marks & SS_MARK_LINE) || lines_[line % shape_.lines] == line;
    for (std::uint64_t page = address >> shape_.page_bits; page <= last >> shape_.page_bits; ++page)
      fine &= (marks & SS_MARK_PAGE) || pages_[page % shape_.pages] == page;
    for (std::uint64_t line = address >> shape_.line_bits; line <= last >> shape_.line_bits; ++line)
      lines_[line % shape_.lines] = line;
    for (std::uint64_t page = address >> shape_.page_bits; page <= last >> shape_.page_bits; ++page)
      pages_[page % shape_.pages] = page;
    return fine;
  }

 private:
  GateShape shape_;
  std::vector<std::uint64_t> lines_, pages_;
};

// How many lookups were left, and whether each that was left out may be.
struct Filtered {
  std::uint64_t accesses = 0, lookups = 0, wrong = 0, absent = 0, expected_absent = 0;
};
Filtered filter(const GateShape& shape, std::uint64_t seed, std::uint64_t base) {
  const Gate data(shape), code({});
  const auto batch = std::make_unique<ss_batch>();
  const auto lookups = std::make_unique<ss_lookups>();
  std::vector<std::uint64_t> last(SS_FIRST_FETCH);
  Accesses accesses(seed, base);
  Seen seen(shape);
  Filtered result;
  for (int round = 0; round < 300; ++round) {
    accesses.fill(*batch);
    result.absent += ss_filter(&data.get(), &code.get(), batch.get(), accesses.sizes.data(),
                               last.data(), lookups.get());
    result.accesses += batch->data;
    for (std::uint64_t i = 0; i < batch->data; ++i) {
      const std::uint64_t address = batch->addresses[i];
      const bool prefetch = batch->operations[i] == kPrefetch;
      result.expected_absent += address == SS_NO_ADDRESS || prefetch;
      if (address == SS_NO_ADDRESS) continue;
      const unsigned marks = lookups->data.of[i];
      result.lookups += (marks & SS_MARK_LINE) != 0;
      result.wrong += !seen.allows(address, address + (prefetch ? 0 : 7), marks);
    }
  }
  return result;
}

TEST_CASE("what the filter leaves out changes nothing") {
  const std::vector<GateShape> shapes = {{64, 16, 6, 12}, {8, 2, 6, 12},  {1, 1, 6, 12},
                                         {64, 1, 6, 63},  {16, 4, 7, 16}, {32, 8, 9, 12}};
  for (const GateShape& shape : shapes)
    for (const std::uint64_t base : {0x4a000000ULL, 0x1fffffff00ULL, 0x7fff00000000ULL}) {
      const Filtered result = filter(shape, base + shape.lines, base);
      CHECK(result.wrong == 0);
      CHECK(result.absent == result.expected_absent);
      // And it leaves something out, at least where the window knows the addresses.
      if (base < 0x1000000000ULL) CHECK(result.lookups < result.accesses * 3 / 4);
    }
}

}  // namespace
}  // namespace stallscope::machine
