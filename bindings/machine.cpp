// SPDX-License-Identifier: Apache-2.0
#include "machine/machine.h"

#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <memory>

#include "bindings.h"
#include "columns.h"
#include "machine/passes.h"
#include "machine_config.h"
#include "probes/buckets.h"
#include "probes/classify.h"

namespace nb = nanobind;

namespace stallscope {
namespace {

using machine::AccessKind;
using machine::Counters;
using machine::Machine;
template <typename T>
using Column = nb::ndarray<const T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

std::unique_ptr<Machine> make(const nb::dict& config) {
  return unwrap(machine::make_machine(machine_config_of(config)));
}

nb::dict by_kind(const std::uint64_t (&counts)[machine::kKinds]) {
  const auto of = [&](AccessKind kind) { return counts[static_cast<unsigned>(kind)]; };
  nb::dict named;
  named["load"] = of(AccessKind::load) + of(AccessKind::modify);
  named["store"] = of(AccessKind::store);
  named["fetch"] = of(AccessKind::fetch);
  return named;
}

nb::dict counters_of(const Counters& counters) {
  nb::dict numbers;
  numbers["accesses"] = by_kind(counters.accesses);
  numbers["misses"] = by_kind(counters.misses);
  numbers["fills"] = counters.fills;
  numbers["evictions"] = counters.evictions;
  numbers["writebacks"] = counters.writebacks;
  numbers["invalidations"] = counters.invalidations;
  numbers["prefetch_fills"] = counters.prefetch_fills;
  numbers["prefetch_useful"] = counters.prefetch_useful;
  return numbers;
}

nb::dict counters(const Machine& machine) {
  nb::dict levels;
  const machine::MachineConfig& config = machine.config();
  for (std::uint32_t i = 0; i < config.caches.size(); ++i)
    levels[config.caches[i].name.c_str()] = counters_of(machine.cache_counters(i));
  for (std::uint32_t i = 0; i < config.tlbs.size(); ++i)
    levels[config.tlbs[i].name.c_str()] = counters_of(machine.tlb_counters(i));
  return levels;
}

void access(Machine& machine, std::uint64_t address, std::uint32_t size, AccessKind kind) {
  machine::NullProbe probe;
  if (kind == AccessKind::fetch)
    machine.fetch(address, size, probe);
  else
    machine.data(address, size, kind, probe);
}

// How many accesses there are; anything wrong with them is an error.
std::size_t check_accesses(const Column<std::uint64_t>& addresses,
                           const Column<std::uint32_t>& sizes, const Column<std::uint8_t>& kinds) {
  const std::size_t count = addresses.shape(0);
  if (sizes.shape(0) != count || kinds.shape(0) != count)
    raise({"addresses, sizes and kinds differ in length", "", ""});
  for (std::size_t i = 0; i < count; ++i)
    if (sizes.data()[i] == 0 || kinds.data()[i] >= machine::kKinds)
      raise({"access " + std::to_string(i) + " has no size or an unknown kind", "", ""});
  return count;
}

// Tells the classifier alone.
struct ClassifyProbe : machine::NullProbe {
  explicit ClassifyProbe(probes::Classify& to) : classify(to) {}
  probes::Classify& classify;
  void on_miss(const machine::Miss& miss) { classify.on_miss(miss); }
  void on_translation_miss(const machine::TranslationMiss& miss) {
    classify.on_translation_miss(miss);
  }
};

nb::dict classify(Machine& machine, const Column<std::uint64_t>& addresses,
                  const Column<std::uint32_t>& sizes, const Column<std::uint8_t>& kinds) {
  const std::size_t count = check_accesses(addresses, sizes, kinds);
  const machine::MachineConfig& config = machine.config();
  probes::Buckets nothing;
  probes::Classify classify(config, nothing);
  ClassifyProbe probe(classify);
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint64_t address = addresses.data()[i];
    const std::uint32_t size = sizes.data()[i];
    const auto kind = static_cast<AccessKind>(kinds.data()[i]);
    if (kind == AccessKind::fetch) {
      machine.fetch(address, size, probe);
      classify.fetch(address, size);
    } else {
      machine.data(address, size, kind, probe);
      classify.data(address, size, kind, 0);
    }
  }
  MissClassTable table;
  classify.fill(table);
  return columns_of(std::make_unique<MissClassTable>(std::move(table)));
}

nb::dict run(Machine& machine, const Column<std::uint64_t>& addresses,
             const Column<std::uint32_t>& sizes, const Column<std::uint8_t>& kinds) {
  const std::size_t count = check_accesses(addresses, sizes, kinds);
  {
    nb::gil_scoped_release release;
    const bool loads = std::all_of(kinds.data(), kinds.data() + count, [](std::uint8_t kind) {
      return kind == static_cast<std::uint8_t>(AccessKind::load);
    });
    const std::uint64_t* const end = addresses.data() + count;
    const bool usual = std::find(addresses.data(), end, machine::kNoAddress) == end;
    if (loads && usual && machine.clean() && machine::Passes::serves_data(machine))
      machine::run_loads(machine, {addresses.data(), count}, {sizes.data(), count});
    else
      for (std::size_t i = 0; i < count; ++i)
        access(machine, addresses.data()[i], sizes.data()[i],
               static_cast<AccessKind>(kinds.data()[i]));
  }
  return counters(machine);
}

std::vector<std::uint64_t> resident(Machine& machine, const std::string& cache) {
  const auto& caches = machine.config().caches;
  for (std::uint32_t i = 0; i < caches.size(); ++i)
    if (caches[i].name == cache) return machine.resident(i);
  raise({"the machine has no cache " + cache, "", ""});
}

}  // namespace

void bind_machine(nb::module_& m) {
  nb::class_<Machine>(m, "Machine", "A simulated memory hierarchy, driven by lists of accesses.")
      .def(nb::new_(&make), nb::arg("config"))
      .def("run", &run, nb::arg("addresses"), nb::arg("sizes"), nb::arg("kinds"),
           "Takes accesses (u64, u32, and u8: 0 load, 1 store, 2 fetch, 3 modify, 4 prefetch); "
           "counters by "
           "level.")
      .def("classify", &classify, nb::arg("addresses"), nb::arg("sizes"), nb::arg("kinds"),
           "As run(), on a machine that was not used before; the columns of table miss_class.")
      .def("counters", &counters)
      .def("resident", &resident, nb::arg("cache"), "First bytes of the lines that a cache holds.");
}

}  // namespace stallscope
