// SPDX-License-Identifier: Apache-2.0
#include "machine/prefetcher.h"

#include "machine/prefetchers/next_line.h"
#include "machine/prefetchers/region.h"
#include "machine/prefetchers/stream.h"
#include "machine/prefetchers/stride.h"

namespace stallscope::machine {
namespace {

template <typename Kind>
std::unique_ptr<Prefetcher> make(std::uint32_t degree, std::uint64_t page_lines) {
  return std::make_unique<Kind>(degree, page_lines);
}

std::unique_ptr<Prefetcher> make_none(std::uint32_t, std::uint64_t) { return nullptr; }

constexpr PrefetcherEntry kPrefetchers[] = {
    {"none", "bring nothing ahead of time", make_none},
    {"next_line", "bring the lines after each miss", make<NextLine>},
    {"stride", "follow a constant distance within a page", make<Stride>},
    {"stream", "run ahead of rising and falling runs of lines", make<Stream>},
    {"region", "streams, and the lines around misses that were used around others", make<Region>},
};

}  // namespace

std::span<const PrefetcherEntry> prefetchers() { return kPrefetchers; }

const PrefetcherEntry* find_prefetcher(std::string_view name) {
  for (const PrefetcherEntry& prefetcher : kPrefetchers)
    if (prefetcher.name == name) return &prefetcher;
  return nullptr;
}

}  // namespace stallscope::machine
