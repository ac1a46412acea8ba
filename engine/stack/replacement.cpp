// SPDX-License-Identifier: Apache-2.0
#include "stack/replacement.h"

#include "stack/policies/arc.h"
#include "stack/policies/belady.h"
#include "stack/policies/clock.h"
#include "stack/policies/lirs.h"
#include "stack/policies/lru.h"
#include "stack/policies/mru.h"
#include "stack/policies/s3_fifo.h"
#include "stack/simulated.h"

namespace stallscope::stack {
namespace {

template <typename Simulation>
std::unique_ptr<Replacement> make(std::uint32_t memory) {
  return std::make_unique<Simulation>(memory);
}
template <typename Policy>
constexpr ReplacementEntry online() {
  return {Policy::kFacts, make<Simulated<Policy>>};
}

constexpr ReplacementEntry kReplacements[] = {
    online<Lru>(),
    online<Clock>(),
    online<Mru>(),
    online<Lirs>(),
    online<Arc>(),
    online<S3Fifo>(),
    {Belady::kFacts, make<Belady>},
};

std::string names() {
  std::string all;
  for (const ReplacementEntry& entry : kReplacements) {
    if (!all.empty()) all += ", ";
    all += entry.facts.name;
  }
  return all;
}

}  // namespace

std::span<const ReplacementEntry> replacements() { return kReplacements; }

Result<std::unique_ptr<Replacement>> make_replacement(std::string_view name, std::uint64_t memory) {
  for (const ReplacementEntry& entry : kReplacements) {
    if (entry.facts.name != name) continue;
    const std::string pages = std::to_string(memory) + (memory == 1 ? " page" : " pages");
    if (memory < entry.facts.least)
      return Error{"a memory of " + pages + " is too small for " + std::string(name),
                   "it needs at least " + std::to_string(entry.facts.least), "give it more memory"};
    if (memory > kMostPages)
      return Error{"a memory of " + pages + " is too large to simulate",
                   "at most " + std::to_string(kMostPages) + " are possible", "use larger pages"};
    return entry.make(static_cast<std::uint32_t>(memory));
  }
  return Error{"there is no replacement policy " + std::string(name), "", "one of: " + names()};
}

}  // namespace stallscope::stack
