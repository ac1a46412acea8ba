// SPDX-License-Identifier: Apache-2.0
#include "machine/level.h"

#include <algorithm>
#include <new>

namespace stallscope::machine {
namespace {

constexpr std::align_val_t kHostLine{64};

}  // namespace

void Level::Release::operator()(std::uint64_t* words) const { operator delete[](words, kHostLine); }

Level::Level(std::uint32_t number, const Geometry& geometry, const PolicyEntry& policy,
             std::uint64_t seed, bool keeps_settled)
    : index(number),
      bits(static_cast<std::uint32_t>(std::countr_zero(geometry.line))),
      fill_settles(policy.fill_settles),
      geometry_(geometry),
      power_of_two_(std::has_single_bit(geometry.sets)),
      mask_(geometry.sets - 1),
      operations_(*policy.operations(geometry.ways)),
      tags_(new (kHostLine) std::uint64_t[geometry.sets * geometry.ways]),
      state_(geometry.sets) {
  std::fill_n(tags_.get(), geometry.sets * geometry.ways, kEmpty);
  sets_ = {tags_.get(), state_.data(), geometry.ways, seed};
  if (keeps_settled && power_of_two_) settled.assign(geometry.sets, kEmpty);
}

std::vector<std::uint64_t> Level::resident() const {
  std::vector<std::uint64_t> tags(tags_.get(), tags_.get() + geometry_.sets * geometry_.ways);
  std::erase(tags, kEmpty);
  return tags;
}

}  // namespace stallscope::machine
