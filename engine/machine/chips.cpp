// SPDX-License-Identifier: Apache-2.0
#include "machine/chips.h"

#include <bit>
#include <vector>

namespace stallscope::machine {
namespace {

constexpr std::string_view kSourceNames[kSources] = {"inner",  "cache",         "peer",
                                                     "outer",  "remote cache",  "remote outer",
                                                     "memory", "remote memory", "upgrade"};
constexpr std::string_view kProtocolNames[kProtocols] = {"mesi", "moesi", "dragon", "dragon_owned"};

Error wrong(const std::string& key, std::string why) {
  return {"chips." + key, std::move(why), ""};
}

Status check_counts(const ChipsConfig& chips) {
  if (chips.chips == 0 || chips.cores == 0 || chips.threads == 0)
    return wrong("cores = 0", "a machine has chips, cores and threads");
  if (chips.chips > kMostCores || chips.cores > kMostCores || chips.all_cores() > kMostCores)
    return wrong("cores", "a machine has at most 64 cores in all");
  if (chips.threads > kMostContexts || chips.contexts() > kMostContexts)
    return wrong("threads", "a machine has at most 256 hardware threads in all");
  if (!std::has_single_bit(chips.page)) return wrong("page", "it must be a power of two");
  return Done{};
}

Status check_caches(const std::vector<CacheConfig>& data) {
  for (const CacheConfig& cache : data) {
    if (cache.policy != "lru")
      return Error{
          cache.name + ".policy = \"" + cache.policy + "\": caches of several cores are lru", "",
          "policy = \"lru\""};
    if (cache.line != data.front().line)
      return Error{cache.name + ".line = " + std::to_string(cache.line) +
                       ": caches of several cores have lines of one size",
                   "coherence is kept by line", "line = " + std::to_string(data.front().line)};
  }
  return Done{};
}

// Index among the caches for data, or its size.
std::size_t find(const std::vector<CacheConfig>& data, const std::string& name) {
  std::size_t at = 0;
  while (at < data.size() && data[at].name != name) ++at;
  return at;
}

}  // namespace

std::string_view name_of(Source source) { return kSourceNames[static_cast<unsigned>(source)]; }
std::string_view name_of(Protocol protocol) {
  return kProtocolNames[static_cast<unsigned>(protocol)];
}

std::optional<Protocol> protocol_of(std::string_view name) {
  for (unsigned i = 0; i < kProtocols; ++i)
    if (kProtocolNames[i] == name) return static_cast<Protocol>(i);
  return std::nullopt;
}

Result<ChipsPlan> plan_of(const MachineConfig& config, const ChipsConfig& chips) {
  if (Status counts = check_counts(chips); !counts) return counts.error();
  std::vector<CacheConfig> data;
  for (const CacheConfig& cache : config.caches)
    if (on_data_path(cache.holds)) data.push_back(cache);
  if (data.empty()) return wrong("coherent", "there is no cache for data");
  if (Status caches = check_caches(data); !caches) return caches.error();
  const std::size_t last = data.size() - 1;
  const std::size_t coherent =
      chips.coherent.empty() ? std::min<std::size_t>(last, 1) : find(data, chips.coherent);
  if (coherent > last)
    return wrong("coherent = \"" + chips.coherent + "\"", "there is no such cache for data");
  const std::size_t shared = chips.shared.empty() ? coherent + 1 : find(data, chips.shared);
  if (!chips.shared.empty() && shared > last)
    return wrong("shared = \"" + chips.shared + "\"", "there is no such cache for data");
  if (coherent > 1)
    return wrong("coherent = \"" + data[coherent].name + "\"",
                 "at most one cache may stand in front of the coherent one");
  if (last > coherent + 1)
    return wrong("coherent = \"" + data[coherent].name + "\"",
                 "at most one cache may stand behind the coherent one");
  if (shared < coherent || shared > coherent + 1)
    return wrong("shared = \"" + chips.shared + "\"",
                 "it is the coherent cache or the one behind it");
  ChipsPlan plan;
  if (coherent > 0) plan.inner = data[0];
  plan.coherent = data[coherent];
  plan.coherent_shared = shared == coherent && chips.cores > 1;
  if (last > coherent) plan.outer = data[last];
  if (plan.coherent_shared && !plan.inner)
    return wrong("shared = \"" + chips.shared + "\"", "cores need a cache of their own");
  return plan;
}

}  // namespace stallscope::machine
