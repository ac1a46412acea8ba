// SPDX-License-Identifier: Apache-2.0
#include <nanobind/stl/array.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include "bindings.h"
#include "columns.h"
#include "layouts.h"
#include "machine_config.h"
#include "session/stalls.h"

namespace nb = nanobind;

namespace stallscope {
namespace {

std::uint32_t number(const nb::dict& from, const char* key) {
  return nb::cast<std::uint32_t>(from[key]);
}

pipeline::CoreConfig core_of(const nb::dict& from) {
  pipeline::CoreConfig core;
  core.fetch = number(from, "fetch");
  core.bundle = number(from, "bundle");
  core.front_end = number(from, "front_end");
  core.fetch_buffer = number(from, "fetch_buffer");
  core.taken_bubble = number(from, "taken_bubble");
  core.rob = number(from, "rob");
  core.loose_rob = nb::cast<bool>(from["loose_rob"]);
  core.rename = number(from, "rename");
  core.loads = number(from, "loads");
  core.stores = number(from, "stores");
  core.store_buffer = number(from, "store_buffer");
  const char* const units[] = {"iu", "fpu", "lsu", "bu"};
  const char* const queues[] = {"iu_queue", "fpu_queue", "lsu_queue", "bu_queue"};
  for (unsigned i = 0; i < pipeline::kUnits; ++i) {
    core.units[i] = number(from, units[i]);
    core.queues[i] = number(from, queues[i]);
  }
  core.misses = number(from, "misses");
  core.reject = number(from, "reject");
  core.translation_rejects = nb::cast<bool>(from["translation_rejects"]);
  core.integer = number(from, "integer");
  core.multiply = number(from, "multiply");
  core.divide = number(from, "divide");
  core.divide_wide = number(from, "divide_wide");
  core.vector = number(from, "vector");
  core.float_add = number(from, "float_add");
  core.float_multiply = number(from, "float_multiply");
  core.float_divide = number(from, "float_divide");
  core.slow = number(from, "slow");
  core.predictor = nb::cast<std::string>(from["predictor"]);
  core.return_stack = number(from, "return_stack");
  core.follow_chain = nb::cast<bool>(from["follow_chain"]);
  core.wrong_paths = nb::cast<bool>(from["wrong_paths"]);
  return core;
}

pipeline::Mode mode_of(const std::string& name) {
  if (name == "real") return pipeline::Mode::real;
  if (name == "single") return pipeline::Mode::single;
  if (name == "inorder") return pipeline::Mode::inorder;
  raise({"there is no mode " + name, "there is: real, single, inorder", ""});
}

session::StallOptions options_of(const nb::dict& core, const nb::dict& from) {
  session::StallOptions options;
  options.core = core_of(core);
  options.pipeline.bus = number(core, "bus");
  options.pipeline.mode = mode_of(nb::cast<std::string>(from["mode"]));
  options.pipeline.ideal = number(from, "ideal");
  options.pipeline.slice = nb::cast<std::uint64_t>(from["slice"]);
  options.pipeline.slice_by_instructions = nb::cast<bool>(from["by_instructions"]);
  options.pipeline.switch_cycles = number(from, "switch_cycles");
  options.pipeline.switch_lines = number(from, "switch_lines");
  options.objects = nb::cast<bool>(from["objects"]);
  options.policy = policy_of(nb::cast<std::string>(from["policy"]),
                             nb::cast<std::vector<ReturnAddressRow>>(from["sites"]));
  if (from.contains("piece")) {
    const auto p = nb::cast<std::array<std::uint64_t, 5>>(from["piece"]);
    options.piece = session::Piece{p[0], p[1], p[2], p[3], p[4]};
  }
  options.tiling.tile = number(from, "tile");
  for (const auto& [header, end] :
       nb::cast<std::vector<std::pair<std::uint64_t, std::uint64_t>>>(from["tiled"]))
    options.tiling.loops.push_back({header, end});
  if (options.tiling.loops.size() == 1 || options.tiling.loops.size() > 3)
    raise({"a nest that is tiled has 2 or 3 loops", "", ""});
  options.shapes = shapes_of(nb::cast<std::vector<ShapeRow>>(from["shapes"]));
  return options;
}

// `on_slice`, unless it is None, is called with the counts of every slice when it ends.
nb::dict run(const std::string& path, const nb::dict& machine, const nb::dict& core,
             const nb::dict& options, const std::vector<PlacedRow>& rows,
             const nb::object& on_slice) {
  const machine::MachineConfig config = machine_config_of(machine);
  session::StallOptions wanted = options_of(core, options);
  if (!on_slice.is_none())
    wanted.on_slice = [&](const pipeline::Slice& slice) {
      nb::gil_scoped_acquire acquire;
      nb::list counts;
      for (const std::uint64_t count : slice.counts.values) counts.append(count);
      on_slice(counts);
    };
  const std::vector<session::Placed> placed = placed_of(rows);
  auto made = [&] {
    nb::gil_scoped_release release;
    return session::stalls(path, config, wanted, placed);
  }();
  if (!made) raise(made.error());
  nb::dict tables;
  add_table(tables, std::move(made->stall));
  add_table(tables, std::move(made->stall_object));
  add_table(tables, std::move(made->stall_source));
  add_table(tables, std::move(made->core_count));
  add_table(tables, std::move(made->bucket));
  nb::dict result;
  result["tables"] = tables;
  result["switch_cycles"] = made->switch_cycles;
  result["truncated"] = made->truncated;
  result["cycles_first"] = made->cycles_first;
  result["cycles_behind"] = made->cycles_behind;
  return result;
}

nb::list causes() {
  nb::list names;
  for (unsigned i = 0; i < pipeline::kCauses; ++i)
    names.append(pipeline::name_of(static_cast<pipeline::Cause>(i)));
  return names;
}

nb::list events() {
  nb::list found;
  for (const pipeline::EventEntry& entry : pipeline::kEventList)
    found.append(nb::make_tuple(entry.name, entry.area, entry.meaning));
  return found;
}

}  // namespace

void bind_pipeline(nb::module_& m) {
  m.def("stalls", &run, nb::arg("path"), nb::arg("machine"), nb::arg("core"), nb::arg("options"),
        nb::arg("placed"), nb::arg("on_slice") = nb::none(), "A kept trace through a core.");
  m.def("stall_causes", &causes, "Why a cycle may retire nothing, in the order of ties.");
  m.def("core_events", &events, "(name, area, meaning) of all that can be counted in a core.");
}

}  // namespace stallscope
