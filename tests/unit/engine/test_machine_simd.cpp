// SPDX-License-Identifier: Apache-2.0
// A machine takes the widest touch that its processor has; here all of them must agree.
#include <doctest.h>

#include <random>
#include <vector>

#include "machine/policies/lru.h"
#include "machine/policies/lru_x86.h"

using namespace stallscope::machine;

#if defined(__x86_64__)
namespace {

using Touch = Touched (*)(Sets&, std::uint64_t, std::uint64_t, std::uint64_t);

struct Storage {
  explicit Storage(std::uint32_t ways) {
    const std::uint32_t stride = stride_of(ways);
    words.resize(kSets * stride / 8 + 1);
    for (Host& host : words)
      for (std::uint64_t& tag : host.tags) tag = kEmpty;
    sets.tags = words[0].tags;
    sets.ways = ways;
    sets.stride = stride;
    sets.all_ways = ways < 64 ? (std::uint64_t{1} << ways) - 1 : ~0ULL;
  }
  static constexpr std::uint32_t kSets = 3;
  struct alignas(64) Host {
    std::uint64_t tags[8];
    bool operator==(const Host&) const = default;
  };
  std::vector<Host> words;
  Sets sets;
};

using Mark = bool (*)(Sets&, std::uint64_t, std::uint64_t, std::uint64_t);

void check_same(std::uint32_t ways, Touch touch, Mark mark) {
  CAPTURE(ways);
  Storage plain(ways), simd(ways);
  std::mt19937_64 random(ways);
  for (int i = 0; i < 3000; ++i) {
    const std::uint64_t set = random() % Storage::kSets;
    const std::uint64_t key = key_of(random() % (ways + ways / 2 + 1));
    const std::uint64_t flags = random() % 3;
    const Touched expected = Queue<Lru, 0>::touch(plain.sets, set, key, flags);
    const Touched touched = touch(simd.sets, set, key, flags);
    REQUIRE(touched.hit == expected.hit);
    REQUIRE(touched.tag == expected.tag);
    const std::uint64_t other = key_of(random() % (ways + 2));
    REQUIRE(mark(simd.sets, set, other, kDirty) ==
            Queue<Lru, 0>::mark(plain.sets, set, other, kDirty));
    REQUIRE((simd.words == plain.words));
  }
}

using Enter = Touched (*)(const Sets&, std::uint64_t, std::uint64_t);

// What passes use: no tag has a flag, and a victim is told of where there was a miss.
void check_enters(std::uint32_t ways, Enter enter) {
  CAPTURE(ways);
  Storage plain(ways), simd(ways);
  std::mt19937_64 random(ways);
  for (int i = 0; i < 3000; ++i) {
    const std::uint64_t set = random() % Storage::kSets;
    const std::uint64_t key = key_of(random() % (ways + ways / 2 + 1));
    const Touched expected = Queue<Lru, 0>::touch(plain.sets, set, key, 0);
    const Touched entered = enter(simd.sets, set, key);
    REQUIRE(entered.hit == expected.hit);
    if (!expected.hit) REQUIRE(entered.tag == expected.tag);
    REQUIRE((simd.words == plain.words));
  }
}

}  // namespace

TEST_CASE("sets without flags do what plain lru does, with AVX2 and AVX-512") {
  if (__builtin_cpu_supports("avx2")) {
    for (const std::uint32_t ways : {3u, 4u}) check_enters(ways, LruAvx2<1>::enter);
    for (const std::uint32_t ways : {5u, 8u}) check_enters(ways, LruAvx2<2>::enter);
    for (const std::uint32_t ways : {12u, 16u}) check_enters(ways, LruAvx2<4>::enter);
  }
  if (!__builtin_cpu_supports("avx512vl") || !__builtin_cpu_supports("avx512dq")) return;
  check_enters(4, LruFour::enter);
  for (const std::uint32_t ways : {5u, 8u}) check_enters(ways, LruAvx512<1>::enter);
  for (const std::uint32_t ways : {12u, 16u}) check_enters(ways, LruAvx512<2>::enter);
  check_enters(8, LruEight::enter);
  check_enters(16, LruSixteen::enter);
}

TEST_CASE("lru with AVX2 does what plain lru does") {
  if (!__builtin_cpu_supports("avx2")) return;
  check_same(3, LruAvx2<1>::touch, LruAvx2<1>::mark);
  check_same(4, LruAvx2<1>::touch, LruAvx2<1>::mark);
  check_same(5, LruAvx2<2>::touch, LruAvx2<2>::mark);
  check_same(8, LruAvx2<2>::touch, LruAvx2<2>::mark);
  check_same(12, LruAvx2<4>::touch, LruAvx2<4>::mark);
  check_same(16, LruAvx2<4>::touch, LruAvx2<4>::mark);
  check_same(20, LruAvx2<6>::touch, LruAvx2<6>::mark);
  check_same(32, LruAvx2<8>::touch, LruAvx2<8>::mark);
}

TEST_CASE("lru with AVX-512 does what plain lru does") {
  if (!__builtin_cpu_supports("avx512f")) return;
  check_same(5, LruAvx512<1>::touch, LruAvx512<1>::mark);
  check_same(8, LruAvx512<1>::touch, LruAvx512<1>::mark);
  check_same(12, LruAvx512<2>::touch, LruAvx512<2>::mark);
  check_same(16, LruAvx512<2>::touch, LruAvx512<2>::mark);
  check_same(20, LruAvx512<3>::touch, LruAvx512<3>::mark);
  check_same(32, LruAvx512<4>::touch, LruAvx512<4>::mark);
  check_same(48, LruAvx512<8>::touch, LruAvx512<8>::mark);
  check_same(64, LruAvx512<8>::touch, LruAvx512<8>::mark);
}
#endif
