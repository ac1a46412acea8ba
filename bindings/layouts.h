// SPDX-License-Identifier: Apache-2.0
// What lies where, and where else it could lie, as Python tells it.
#pragma once

#include <cstdint>
#include <string>
#include <tuple>
#include <vector>

#include "session/placer.h"
#include "session/replay.h"
#include "session/reshape.h"

namespace stallscope {

// Kind, name, type, address, size.
using PlacedRow = std::tuple<std::string, std::string, std::string, std::uint64_t, std::uint64_t>;
// Site, and module and offset of its return address.
using ReturnAddressRow = std::tuple<std::uint32_t, std::string, std::uint64_t>;
// Sites or none, address, size, element; (base, stride) of groups; (start, size, group, to) of
// parts.
using ShapeRow =
    std::tuple<std::vector<std::uint32_t>, std::uint64_t, std::uint64_t, std::uint64_t,
               std::vector<std::tuple<std::uint64_t, std::uint64_t>>,
               std::vector<std::tuple<std::uint64_t, std::uint64_t, std::uint32_t, std::uint64_t>>>;

inline std::vector<session::Placed> placed_of(const std::vector<PlacedRow>& rows) {
  std::vector<session::Placed> placed;
  for (const auto& [kind, name, type, address, size] : rows)
    placed.push_back({kind, name, type, address, size});
  return placed;
}

inline session::Policy policy_of(const std::string& text,
                                 const std::vector<ReturnAddressRow>& sites) {
  session::Policy policy{text, {}};
  for (const auto& [site, module, offset] : sites) policy.sites.push_back({site, module, offset});
  return policy;
}

inline std::vector<session::Shape> shapes_of(const std::vector<ShapeRow>& rows) {
  std::vector<session::Shape> shapes;
  for (const auto& [sites, address, size, element, groups, parts] : rows) {
    session::Shape shape{sites, address, size, element, {}, {}};
    for (const auto& [base, stride] : groups) shape.groups.push_back({base, stride});
    for (const auto& [start, bytes, group, to] : parts)
      shape.parts.push_back({start, bytes, group, to});
    shapes.push_back(std::move(shape));
  }
  return shapes;
}

}  // namespace stallscope
