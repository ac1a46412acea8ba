// SPDX-License-Identifier: Apache-2.0
#include "types/variables.h"

#include <algorithm>

namespace stallscope::types {
namespace {

using symbols::Local;

// DWARF numbers the registers of x86-64 in an order of its own.
constexpr std::array<std::uint8_t, 16> kHardware = {0, 2, 1,  3,  6,  7,  5,  4,
                                                    8, 9, 10, 11, 12, 13, 14, 15};
constexpr int kMostCandidates = 64;  // variables that share a place, looked at

}  // namespace

Variables::Variables(const symbols::Function& function, symbols::TypeTable& types)
    : locals_(function.locals) {
  std::array<std::vector<symbols::Interval>, 16> intervals;
  for (std::uint32_t i = 0; i < locals_.size(); ++i) {
    const Local& local = locals_[i];
    if (local.place != Local::Place::kFrame && local.reg >= kHardware.size()) continue;
    const symbols::Type& type = types.get(local.type);
    if (local.place == Local::Place::kRegister) {
      // Only pointers matter, and one to anything says less than the code does.
      if (type.kind == symbols::TypeKind::kPointer && type.target != symbols::kNoType)
        intervals[kHardware[local.reg]].push_back({local.low, local.high, 0, i});
      continue;
    }
    auto& placed = local.place == Local::Place::kFrame ? frame_ : memory_[kHardware[local.reg]];
    const auto size = static_cast<std::int64_t>(std::min<std::uint64_t>(type.size, 1u << 30));
    if (local.offset > -(1LL << 40) && local.offset < 1LL << 40)
      placed.push_back({local.offset, local.offset + size, i});
  }
  auto by_offset = [](const Placed& a, const Placed& b) { return a.offset < b.offset; };
  std::stable_sort(frame_.begin(), frame_.end(), by_offset);
  for (std::size_t i = 0; i < registers_.size(); ++i) {
    registers_[i] = symbols::IntervalMap::build(std::move(intervals[i]));
    std::stable_sort(memory_[i].begin(), memory_[i].end(), by_offset);
  }
}

const Local* Variables::find(const std::vector<Placed>& placed, std::int64_t offset,
                             std::uint64_t address) const {
  auto at = std::upper_bound(placed.begin(), placed.end(), offset,
                             [](std::int64_t o, const Placed& p) { return o < p.offset; });
  const Local* best = nullptr;
  for (int tries = 0; at != placed.begin() && tries < kMostCandidates; ++tries) {
    --at;
    const Local& local = locals_[at->local];
    if (offset >= at->end || address < local.low || address >= local.high) continue;
    if (best == nullptr || local.low > best->low) best = &local;
  }
  return best;
}

const Local* Variables::in_frame(std::int64_t offset, std::uint64_t address) const {
  return find(frame_, offset, address);
}

const Local* Variables::in_memory(code::RegisterNumber reg, std::int64_t offset,
                                  std::uint64_t address) const {
  return find(memory_[reg], offset, address);
}

}  // namespace stallscope::types
