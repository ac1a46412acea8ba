// SPDX-License-Identifier: Apache-2.0
#include "stack/allocation.h"

#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <string>
#include <vector>

#include "bindings.h"
#include "stack/pools.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace stallscope {
namespace {

using stack::Claim;
using stack::Pools;
template <typename T>
using Array = nb::ndarray<const T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

std::vector<Claim> claims_of(const std::vector<Array<std::uint64_t>>& curves,
                             const std::vector<double>& per, const std::vector<double>& priorities,
                             const std::vector<double>& levels) {
  for (const auto* list : {&per, &priorities, &levels})
    if (!list->empty() && list->size() != curves.size())
      raise({std::to_string(list->size()) + " numbers for " + std::to_string(curves.size()) +
                 " curves",
             "", "give one for each"});
  std::vector<Claim> claims;
  for (std::size_t i = 0; i < curves.size(); ++i) {
    Claim claim{{curves[i].data(), curves[i].data() + curves[i].size()}};
    if (!per.empty()) claim.per = per[i];
    if (!priorities.empty()) claim.priority = priorities[i];
    if (!levels.empty()) claim.level = levels[i];
    if (!(claim.per > 0 && claim.priority > 0))
      raise({"a rate per nothing, or a priority of 0 or less", "both are above 0", ""});
    claims.push_back(std::move(claim));
  }
  return claims;
}

stack::Sizes allocate(const std::string& way, const std::vector<Array<std::uint64_t>>& curves,
                      std::uint64_t memory, std::uint64_t group, const std::vector<double>& per,
                      const std::vector<double>& priorities, const std::vector<double>& levels) {
  const std::vector<Claim> claims = claims_of(curves, per, priorities, levels);
  if (way == "throughput") return unwrap(stack::throughput(claims, memory, group));
  if (way == "fewest") return unwrap(stack::fewest_misses(claims, memory, group));
  if (way == "equal") return unwrap(stack::equal_rates(claims, memory));
  if (way == "service") return unwrap(stack::service_levels(claims, memory, group)).sizes;
  raise({"there is no way of allocating called " + way, "",
         "one of: throughput, fewest, equal, service"});
}

nb::dict state_of(const stack::PoolState& state) {
  nb::dict row;
  row["references"] = state.references;
  row["misses"] = state.misses;
  row["cold"] = state.cold;
  row["granted"] = state.granted;
  row["switches"] = state.switches;
  row["policy"] = state.mru ? "mru" : "lru";
  row["together"] = state.together;
  return row;
}

nb::list states_of(const Pools& pools) {
  nb::list rows;
  for (const stack::PoolState& state : pools.states()) rows.append(state_of(state));
  return rows;
}

nb::list history_of(const Pools& pools) {
  nb::list rows;
  for (const Pools::Row& one : pools.history()) {
    nb::dict row = state_of(one.state);
    row["epoch"] = one.epoch;
    row["pool"] = one.pool;
    rows.append(row);
  }
  return rows;
}

void append(Pools& pools, const Array<std::uint64_t>& pages, const Array<std::uint32_t>& owners) {
  Status status = [&] {
    nb::gil_scoped_release release;
    return pools.append({pages.data(), pages.size()}, {owners.data(), owners.size()});
  }();
  unwrap(std::move(status));
}

}  // namespace

void bind_allocation(nb::module_& m) {
  m.def("allocate", &allocate, "way"_a, "curves"_a, "memory"_a, nb::kw_only(), "group"_a = 64,
        "per"_a = std::vector<double>(), "priorities"_a = std::vector<double>(),
        "levels"_a = std::vector<double>());
  nb::class_<Pools>(m, "Pools", "One memory for several pools of pages.")
      .def("append", &append, "pages"_a, "pools"_a)
      .def("states", &states_of)
      .def("history", &history_of);
  const stack::PoolOptions usual;
  m.def(
      "pools",
      [](std::uint32_t pools, std::uint64_t memory, const std::string& sharing, std::uint64_t group,
         std::uint64_t epoch, bool choose_policy, std::uint32_t patience, std::uint64_t threshold,
         const std::vector<double>& priorities, const std::vector<double>& levels) {
        return unwrap(Pools::make({pools, memory, group, epoch, sharing, choose_policy, patience,
                                   threshold, priorities, levels}));
      },
      "pools"_a, "memory"_a, nb::kw_only(), "sharing"_a = usual.sharing, "group"_a = usual.group,
      "epoch"_a = usual.epoch, "choose_policy"_a = usual.choose_policy,
      "patience"_a = usual.patience, "threshold"_a = usual.threshold,
      "priorities"_a = usual.priorities, "levels"_a = usual.levels);
}

}  // namespace stallscope
