// SPDX-License-Identifier: Apache-2.0
#include "machine/policies.h"

#include "machine/policies/fifo.h"
#include "machine/policies/lru.h"
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

template <typename Policy>
constexpr PolicyEntry entry(std::string_view name, std::string_view description,
                            bool ways_power_of_two = false) {
  return {name,
          description,
          Policy::kMaxWays,
          ways_power_of_two,
          Policy::kFillSettles,
          operations<Policy>};
}

constexpr PolicyEntry kPolicies[] = {
    entry<Lru>("lru", "evict the line unused longest"),
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
