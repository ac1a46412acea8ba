// SPDX-License-Identifier: Apache-2.0
#include "machine/policies.h"

#include "machine/policies/fifo.h"
#include "machine/policies/lru.h"
#include "machine/policies/lru_x86.h"
#include "machine/policies/plru.h"
#include "machine/policies/random.h"
#include "machine/policies/srrip.h"

namespace stallscope::machine {
namespace {

template <typename Layout>
constexpr SetOperations kOperations{Layout::touch, Layout::look, Layout::remove, Layout::mark};

// The common numbers of ways are compiled in; 0 reads it at run time.
template <typename Policy>
const SetOperations* operations(std::uint32_t ways) {
  switch (ways) {
    case 1:
      return &kOperations<typename Policy::template Layout<1>>;
    case 2:
      return &kOperations<typename Policy::template Layout<2>>;
    case 4:
      return &kOperations<typename Policy::template Layout<4>>;
    case 8:
      return &kOperations<typename Policy::template Layout<8>>;
    case 12:
      return &kOperations<typename Policy::template Layout<12>>;
    case 16:
      return &kOperations<typename Policy::template Layout<16>>;
    default:
      return &kOperations<typename Policy::template Layout<0>>;
  }
}

#if defined(__x86_64__)
// What an access needs in SIMD, the rest as it is.
template <typename Simd>
constexpr SetOperations kSimdOperations{Simd::touch, Queue<Lru, 0>::look, Queue<Lru, 0>::remove,
                                        Simd::mark};

template <template <unsigned> typename Simd, unsigned Lanes>
const SetOperations* simd_operations(std::uint32_t stride) {
  switch (stride / Lanes) {
    case 1:
      return &kSimdOperations<Simd<1>>;
    case 2:
      return &kSimdOperations<Simd<2>>;
    case 3:
      return &kSimdOperations<Simd<3>>;
    case 4:
      return &kSimdOperations<Simd<4>>;
    case 6:
      return &kSimdOperations<Simd<6>>;
    case 8:
      return &kSimdOperations<Simd<8>>;
    default:
      return nullptr;
  }
}
#endif

const SetOperations* lru_operations(std::uint32_t ways) {
#if defined(__x86_64__)
  const std::uint32_t stride = stride_of(ways);
  const SetOperations* simd = nullptr;
  if (stride % 8 == 0 && ways <= 64 && __builtin_cpu_supports("avx512f"))
    simd = simd_operations<LruAvx512, 8>(stride);
  else if (stride % 4 == 0 && ways <= 64 && __builtin_cpu_supports("avx2"))
    simd = simd_operations<LruAvx2, 4>(stride);
  if (simd) return simd;
#endif
  return operations<Lru>(ways);
}

template <typename Policy>
constexpr PolicyEntry entry(std::string_view name, std::string_view description,
                            bool ways_power_of_two = false,
                            const SetOperations* (*choose)(std::uint32_t) = operations<Policy>) {
  return {name, description, Policy::kMaxWays, ways_power_of_two, Policy::kFillSettles, choose};
}

constexpr PolicyEntry kPolicies[] = {
    entry<Lru>("lru", "evict the line unused longest", false, lru_operations),
    entry<Plru>("plru", "evict where a tree of one-bit turns points; close to lru", true),
    entry<Fifo>("fifo", "evict the line that came first"),
    entry<Random>("random", "evict any line, drawn from a seeded generator"),
    entry<Srrip>("srrip", "predict re-reference; resists long scans"),
};

}  // namespace

std::span<const PolicyEntry> policies() { return kPolicies; }

const PolicyEntry* find_policy(std::string_view name) {
  for (const PolicyEntry& policy : kPolicies)
    if (policy.name == name) return &policy;
  return nullptr;
}

}  // namespace stallscope::machine
