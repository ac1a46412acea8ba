// SPDX-License-Identifier: Apache-2.0
// Arrays of page numbers in (anything with a buffer or DLPack: NumPy, Arrow), arrays of counts out.
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <memory>
#include <span>
#include <vector>

#include "bindings.h"
#include "columns.h"
#include "stack/group_stack.h"
#include "stack/lru_stack.h"
#include "stack/mru_stack.h"
#include "stack/path_stack.h"
#include "stack/prefetching.h"
#include "stack/replacement.h"
#include "stack/sampled_stack.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace stallscope {
namespace {

using stack::LruStack;
using stack::Replacement;
template <typename T>
using Array = nb::ndarray<const T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Pages = Array<std::uint64_t>;

template <typename T>
std::span<const T> span_of(const Array<T>& array) {
  return {array.data(), array.size()};
}

template <typename Work>
auto without_gil(Work work) {
  nb::gil_scoped_release release;
  return work();
}

nb::object distances(LruStack& stack, const Pages& pages) {
  std::vector<std::uint32_t> column(pages.size());
  unwrap(without_gil([&] { return stack.append(span_of(pages), column.data()); }));
  return array_of(std::move(column));
}

// What all stacks with counts of distances have.
template <typename Stack>
nb::class_<Stack> bind_counted(nb::module_& m, const char* name, const char* doc) {
  return nb::class_<Stack>(m, name, doc)
      .def(nb::init<std::uint32_t>(), "history"_a = 16)
      .def("append",
           [](Stack& stack, const Pages& pages) {
             unwrap(without_gil([&] { return stack.append(span_of(pages)); }));
           })
      .def("curve", [](const Stack& stack) { return array_of(stack.counts().curve()); })
      .def("epoch_curve", [](const Stack& stack) { return array_of(stack.counts().epoch_curve()); })
      .def(
          "ended_curve",
          [](const Stack& stack, std::uint64_t back) {
            return array_of(unwrap(stack.counts().ended_curve(back)));
          },
          "back"_a = 0)
      .def("end_epoch", &Stack::end_epoch)
      .def_prop_ro("references", [](const Stack& stack) { return stack.counts().references(); })
      .def_prop_ro("epochs", [](const Stack& stack) { return stack.counts().epochs(); })
      .def_prop_ro("kept", [](const Stack& stack) { return stack.counts().kept(); })
      .def_prop_ro("distinct", &Stack::distinct)
      .def_prop_ro("bytes", &Stack::bytes);
}

void bind_path_stack(nb::module_& m) {
  using stack::PathStack;
  using Kinds = Array<std::uint8_t>;
  nb::class_<PathStack>(m, "PathStack", "The LRU stack of what PATH units say comes and leaves.")
      .def(nb::init<std::uint64_t, std::uint32_t>(), "recent"_a = 1u << 15, "history"_a = 16)
      .def("append",
           [](PathStack& stack, const Pages& pages, const Kinds& kinds, const Pages& moments) {
             unwrap(without_gil(
                 [&] { return stack.append(span_of(pages), span_of(kinds), span_of(moments)); }));
           })
      .def("curve", [](const PathStack& stack) { return array_of(stack.counts().curve()); })
      .def_prop_ro("references", [](const PathStack& s) { return s.counts().references(); })
      .def_prop_ro("distinct", &PathStack::distinct)
      .def_prop_ro("held", &PathStack::held)
      .def_prop_ro("bytes", &PathStack::bytes);
}

void bind_stacks(nb::module_& m) {
  bind_counted<LruStack>(m, "LruStack", "The LRU stack over every page ever seen, and its curve.")
      .def("distances", &distances, "Appends, and says each reference's reuse distance.")
      .def("pages", [](const LruStack& stack) { return array_of(stack.pages()); });
  bind_path_stack(m);
  bind_counted<stack::MruStack>(m, "MruStack", "MRU's own priority stack, and its curve.");
  bind_counted<stack::ReversedRank>(m, "ReversedRank",
                                    "Distances from the LRU stack's bottom, once taken for MRU.");
}

void bind_group_stack(nb::module_& m) {
  using stack::GroupStack;
  nb::class_<GroupStack>(m, "GroupStack", "The LRU stack in groups: the curve where they meet.")
      .def("append",
           [](GroupStack& stack, const Pages& pages) {
             unwrap(without_gil([&] { return stack.append(span_of(pages)); }));
           })
      .def("misses", [](const GroupStack& stack) { return array_of(stack.misses()); })
      .def("set_boundaries",
           [](GroupStack& stack, std::vector<std::uint64_t> boundaries) {
             unwrap(stack.set_boundaries(std::move(boundaries)));
           })
      .def("end_epoch", &GroupStack::end_epoch)
      .def_prop_ro("boundaries", &GroupStack::boundaries)
      .def_prop_ro("references", &GroupStack::references)
      .def_prop_ro("moves", &GroupStack::moves)
      .def_prop_ro("distinct", &GroupStack::distinct)
      .def_prop_ro("bytes", &GroupStack::bytes);
  m.def("groups_at", [](std::vector<std::uint64_t> boundaries) {
    return unwrap(GroupStack::make(std::move(boundaries)));
  });
  m.def(
      "groups_around",
      [](std::uint64_t memory, std::uint64_t group) {
        return unwrap(GroupStack::around(memory, group));
      },
      "memory"_a, "group"_a);
  m.def(
      "groups_of",
      [](std::uint64_t group, std::uint64_t most) {
        return unwrap(GroupStack::every(group, most));
      },
      "group"_a, "most"_a);
}

nb::tuple sampled_curve(const stack::SampledStack& stack) {
  stack::SampledStack::Curve curve = stack.curve();
  return nb::make_tuple(curve.step, array_of(std::move(curve.misses)));
}

void bind_sampled_stack(nb::module_& m) {
  using stack::SampledStack;
  nb::class_<SampledStack>(m, "SampledStack", "The LRU curve from a sample of the pages (SHARDS).")
      .def("append", [](SampledStack& stack,
                        const Pages& pages) { without_gil([&] { stack.append(span_of(pages)); }); })
      .def("curve", &sampled_curve, "(step, misses at 0, step, 2 step, ...)")
      .def_prop_ro("references", &SampledStack::references)
      .def_prop_ro("sampled", &SampledStack::sampled)
      .def_prop_ro("pages", &SampledStack::pages)
      .def_prop_ro("rate", &SampledStack::rate)
      .def_prop_ro("distinct", &SampledStack::distinct)
      .def_prop_ro("bytes", &SampledStack::bytes);
  m.def(
      "sampled_stack",
      [](double rate, std::uint64_t most_pages, std::uint32_t seed) {
        return unwrap(SampledStack::make(rate, most_pages, seed));
      },
      "rate"_a = 0.01, "most_pages"_a = 0, "seed"_a = 1);
}

using Writes = std::optional<Array<std::uint8_t>>;

std::span<const std::uint8_t> marks_of(const Writes& writes, const Pages& pages) {
  if (!writes) return {};
  if (writes->size() != pages.size())
    raise({"there are " + std::to_string(writes->size()) + " marks of writes for " +
               std::to_string(pages.size()) + " references",
           "", "give one for each"});
  return span_of(*writes);
}

void append_references(Replacement& memory, const Pages& pages, const Writes& writes) {
  const auto marks = marks_of(writes, pages);
  unwrap(without_gil([&] { return memory.append(span_of(pages), marks); }));
}

nb::dict misses_of(Replacement& memory) {
  const stack::Misses misses = without_gil([&] { return memory.misses(); });
  nb::dict numbers;
  numbers["references"] = misses.references;
  numbers["misses"] = misses.misses;
  numbers["evictions"] = misses.evictions;
  numbers["write_misses"] = misses.write_misses;
  numbers["writebacks"] = misses.writebacks;
  numbers["bytes"] = misses.bytes;
  return numbers;
}

nb::list replacement_policies() {
  nb::list rows;
  for (const auto& [facts, make] : stack::replacements())
    rows.append(
        nb::make_tuple(std::string(facts.name), std::string(facts.description), facts.least));
  return rows;
}

void bind_replacement(nb::module_& m) {
  nb::class_<Replacement>(m, "Replacement", "A memory of so many pages under one policy.")
      .def("append", &append_references, "pages"_a, "writes"_a = nb::none())
      .def("misses", &misses_of);
  m.def(
      "replacement",
      [](const std::string& policy, std::uint64_t memory) {
        return unwrap(stack::make_replacement(policy, memory));
      },
      "policy"_a, "memory"_a);
  m.def("replacement_policies", &replacement_policies, "(name, description, least memory)");
}

nb::dict prefetch_counts(const stack::Prefetching& memory) {
  const stack::PrefetchCounts counts = memory.counts();
  nb::dict numbers;
  numbers["references"] = counts.references;
  numbers["faults"] = counts.faults;
  numbers["cold"] = counts.cold;
  numbers["faults_without"] = counts.faults_without;
  numbers["prefetched"] = counts.prefetched;
  numbers["used"] = counts.used;
  numbers["wasted"] = counts.wasted;
  numbers["touched"] = counts.touched;
  numbers["writebacks"] = counts.writebacks;
  numbers["writebacks_without"] = counts.writebacks_without;
  numbers["reach"] = counts.reach;
  numbers["bytes"] = counts.bytes;
  return numbers;
}

void bind_prefetching(nb::module_& m) {
  using stack::Prefetching;
  nb::class_<Prefetching>(m, "Prefetching", "A memory under LRU whose faults prefetch.")
      .def(
          "append",
          [](Prefetching& memory, const Pages& pages, const Writes& writes) {
            const auto marks = marks_of(writes, pages);
            without_gil([&] { memory.append(span_of(pages), marks); });
          },
          "pages"_a, "writes"_a = nb::none())
      .def("counts", &prefetch_counts);
  const stack::PrefetchOptions usual;
  m.def(
      "prefetching",
      [](const std::string& kind, std::uint64_t memory, std::uint32_t most, std::uint32_t degree,
         std::uint32_t scan, std::uint32_t depth, double unused_share, bool adapt) {
        return unwrap(
            Prefetching::make({kind, memory, most, degree, scan, depth, unused_share, adapt}));
      },
      "kind"_a, "memory"_a, nb::kw_only(), "most"_a = usual.most, "degree"_a = usual.degree,
      "scan"_a = usual.scan, "depth"_a = usual.depth, "unused_share"_a = usual.unused_share,
      "adapt"_a = usual.adapt);
}

}  // namespace

void bind_stack(nb::module_& m) {
  bind_stacks(m);
  bind_group_stack(m);
  bind_sampled_stack(m);
  bind_replacement(m);
  bind_prefetching(m);
}

}  // namespace stallscope
