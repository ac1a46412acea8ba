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
    : operations_(*policy.operations(geometry.ways)),
      mask_(geometry.sets - 1),
      geometry_(geometry),
      power_of_two_(std::has_single_bit(geometry.sets)),
      index(number),
      bits(static_cast<std::uint32_t>(std::countr_zero(geometry.line))),
      fill_settles(policy.fill_settles),
      words_(geometry.sets * stride_of(geometry.ways)),
      tags_(new (kHostLine) std::uint64_t[words_]),
      state_(geometry.sets) {
  std::fill_n(tags_.get(), words_, kEmpty);
  const std::uint64_t all_ways =
      geometry.ways < 64 ? (std::uint64_t{1} << geometry.ways) - 1 : ~0ULL;
  sets_ = {tags_.get(), state_.data(), geometry.ways, stride_of(geometry.ways), all_ways, seed};
  if (keeps_settled && power_of_two_) settled.assign(geometry.sets, kEmpty);
}

std::vector<std::uint64_t> Level::resident() const {
  std::vector<std::uint64_t> tags(tags_.get(), tags_.get() + words_);
  std::erase(tags, kEmpty);
  return tags;
}

std::uint64_t Level::empty_ways() const {
  const auto empty = std::count(tags_.get(), tags_.get() + words_, kEmpty);
  const std::uint64_t padding = words_ - geometry_.sets * geometry_.ways;
  return static_cast<std::uint64_t>(empty) - padding;
}

}  // namespace stallscope::machine
