// SPDX-License-Identifier: Apache-2.0
#include "session/replay.h"

#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include "bindings.h"
#include "layouts.h"
#include "machine_config.h"
#include "modules.h"
#include "pages.h"
#include "session/designs.h"
#include "session/page_piece.h"
#include "session/shard.h"
#include "simulation.h"

namespace nb = nanobind;

namespace stallscope {
namespace {

nb::dict run(const std::string& path, const nb::dict& machine, const nb::dict& options,
             const std::vector<PlacedRow>& rows, const std::vector<ModuleWords>& modules) {
  const machine::MachineConfig config = machine_config_of(machine);
  const session::SimulationOptions wanted = simulation_options_of(options);
  const std::vector<session::Placed> placed = placed_of(rows);
  const std::vector<types::Module> known = modules_of(modules);
  auto replayed = [&] {
    nb::gil_scoped_release release;
    return session::replay(path, config, wanted, placed, known);
  }();
  if (!replayed) raise(replayed.error());
  return simulation_of(std::move(replayed->tables), replayed->instructions, replayed->accesses);
}

nb::dict run_moved(const std::string& path, const nb::dict& machine, const nb::dict& options,
                   const std::vector<PlacedRow>& rows, const std::string& policy,
                   const std::vector<ReturnAddressRow>& sites) {
  const machine::MachineConfig config = machine_config_of(machine);
  const session::SimulationOptions wanted = simulation_options_of(options);
  const std::vector<session::Placed> placed = placed_of(rows);
  const session::Policy moves = policy_of(policy, sites);
  auto replayed = [&] {
    nb::gil_scoped_release release;
    return session::replay_moved(path, config, wanted, placed, moves);
  }();
  if (!replayed) raise(replayed.error());
  nb::dict result =
      simulation_of(std::move(replayed->tables), replayed->instructions, replayed->accesses);
  result["moved_blocks"] = replayed->moved_blocks;
  return result;
}

// (accesses, misses, evictions) of every level of every machine.
nb::dict run_designs(const std::string& path, const std::vector<nb::dict>& machines) {
  std::vector<machine::MachineConfig> configs;
  for (const nb::dict& machine : machines) configs.push_back(machine_config_of(machine));
  auto replayed = [&] {
    nb::gil_scoped_release release;
    return session::replay_designs(path, configs);
  }();
  if (!replayed) raise(replayed.error());
  nb::list found;
  for (const auto& levels : replayed->machines) {
    nb::list rows;
    for (const session::LevelCounts& counts : levels)
      rows.append(nb::make_tuple(counts.accesses, counts.misses, counts.evictions));
    found.append(rows);
  }
  nb::dict result;
  result["instructions"] = replayed->instructions;
  result["accesses"] = replayed->accesses;
  result["machines"] = found;
  return result;
}

// `others`: a byte for each crossing access, of what the other shards missed of it.
nb::dict run_shard(const std::string& path, const nb::dict& machine, std::uint32_t shards,
                   std::uint32_t shard, bool evictions, const nb::bytes& others,
                   const std::vector<PlacedRow>& rows) {
  const machine::MachineConfig config = machine_config_of(machine);
  const std::vector<session::Placed> placed = placed_of(rows);
  const auto* bytes = static_cast<const std::uint8_t*>(others.data());
  const session::ShardOptions options{shards, shard, evictions, {bytes, bytes + others.size()}};
  auto replayed = [&] {
    nb::gil_scoped_release release;
    return session::replay_shard(path, config, options, placed);
  }();
  if (!replayed) raise(replayed.error());
  nb::list levels;
  for (const session::ShardLevel& level : replayed->levels)
    levels.append(nb::make_tuple(level.accesses, level.misses, level.evictions));
  nb::dict tables, result;
  add_table(tables, std::move(replayed->bucket));
  add_table(tables, std::move(replayed->miss));
  add_table(tables, std::move(replayed->eviction));
  result["levels"] = levels;
  result["missed"] =
      nb::bytes(reinterpret_cast<const char*>(replayed->missed.data()), replayed->missed.size());
  result["instructions"] = replayed->instructions;
  result["accesses"] = replayed->accesses;
  result["absent"] = replayed->absent;
  result["fetched"] = replayed->fetched;
  result["tables"] = tables;
  return result;
}

void check_shards(const nb::dict& machine, std::uint32_t shards) {
  unwrap(session::check_shards(machine_config_of(machine), shards));
}

// `on_log` is called with the columns of one piece of the log after the other.
nb::dict run_pages(const std::string& path, const nb::dict& options,
                   const std::vector<PlacedRow>& rows, const nb::callable& on_log) {
  const session::PageOptions wanted = page_options_of(options);
  const std::vector<session::Placed> placed = placed_of(rows);
  auto tracked = [&] {
    nb::gil_scoped_release release;
    return session::track_pages(path, wanted, placed, [&](PageLogTable piece) {
      nb::gil_scoped_acquire acquire;
      on_log(columns_of(std::make_unique<PageLogTable>(std::move(piece))));
    });
  }();
  return pages_of(unwrap(std::move(tracked)));
}

nb::bytes bytes_of(const std::vector<std::uint64_t>& numbers) {
  return nb::bytes(reinterpret_cast<const char*>(numbers.data()), 8 * numbers.size());
}

nb::dict run_page_piece(const std::string& path, std::uint64_t page_size, std::uint64_t first,
                        std::uint64_t last) {
  auto found = [&] {
    nb::gil_scoped_release release;
    return session::page_piece(path, page_size, first, last);
  }();
  const session::PagePiece piece = unwrap(std::move(found));
  nb::dict result;
  result["references"] = piece.references;
  result["curve"] = bytes_of(piece.curve);
  result["firsts"] = bytes_of(piece.firsts);
  result["lasts"] = bytes_of(piece.lasts);
  return result;
}

}  // namespace

void bind_replay(nb::module_& m) {
  m.def("replay", &run, nb::arg("path"), nb::arg("machine"), nb::arg("options"), nb::arg("placed"),
        nb::arg("modules") = nb::list(), "A kept trace through a machine.");
  m.def("replay_designs", &run_designs, nb::arg("path"), nb::arg("machines"),
        "A kept trace through many machines at once; they are such as that is exact for.");
  m.def("replay_shard", &run_shard, nb::arg("path"), nb::arg("machine"), nb::arg("shards"),
        nb::arg("shard"), nb::arg("evictions"), nb::arg("others"), nb::arg("placed"),
        "A kept trace through the sets of one shard of a machine.");
  m.def("check_shards", &check_shards, nb::arg("machine"), nb::arg("shards"),
        "Raises EngineError where the machine cannot be replayed in so many shards.");
  m.def("page_piece", &run_page_piece, nb::arg("path"), nb::arg("page_size"), nb::arg("first"),
        nb::arg("last"), "What the pages of a part of a kept trace say of the curve of the whole.");
  m.def("track_pages", &run_pages, nb::arg("path"), nb::arg("options"), nb::arg("placed"),
        nb::arg("on_log"), "The page references of a kept trace.");
  m.def("replay_moved", &run_moved, nb::arg("path"), nb::arg("machine"), nb::arg("options"),
        nb::arg("placed"), nb::arg("policy"), nb::arg("sites"),
        "A kept trace through a machine, heap blocks where a policy of the near allocator puts "
        "them.");
}

}  // namespace stallscope
