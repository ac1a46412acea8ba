// SPDX-License-Identifier: Apache-2.0
#include "session/tiling.h"

#include <algorithm>
#include <bit>
#include <map>
#include <utility>

#include "base/flat_map.h"

namespace stallscope::session {
namespace {

std::uint64_t mixed(std::uint64_t hash, std::uint64_t with) {
  hash = (hash ^ with) * 0x9e3779b97f4a7c15u;
  return hash ^ hash >> 29;
}

}  // namespace

Tiles::Tiles(const Tiling& tiling, const stream::CodeTable& code)
    : tiling_(tiling), code_(code), known_(code) {
  for (std::uint32_t i = 0; i < tiling.loops.size(); ++i)
    *known_.headers.try_emplace(tiling.loops[i].header).first = i;
}

bool Tiles::concerns(std::uint32_t block) {
  if (block >= concerns_.size()) {
    known_.learn();
    concerns_.resize(code_.blocks.size());
  }
  if (concerns_[block] == 0) {
    const stream::Block& info = code_.blocks[block];
    const auto* first = code_.instructions.data() + info.first_instruction;
    const bool any = std::any_of(first, first + info.instructions, [&](const auto& instruction) {
      return within(instruction.address);
    });
    concerns_[block] = any ? 1 : 2;
  }
  return inside_ || concerns_[block] == 1;
}

void Tiles::gather(Part part, std::uint64_t at) {
  const std::size_t depth = tiling_.loops.size();
  if (!inside_) {
    inside_ = true;
    std::fill(std::begin(turn_), std::end(turn_), -1);
  }
  for (std::size_t i = 0; i < depth; ++i) {
    const TiledLoop& loop = tiling_.loops[i];
    if (at < loop.header || at > loop.end) turn_[i] = -1;
    if (at != loop.header) continue;
    ++turn_[i];
    begins_ = true;
  }
  part.innermost = turn_[depth - 1] >= 0;
  if (at == tiling_.loops.back().header) {
    // What came since a loop around began its turn is in front of this one already.
    const std::uint32_t first = units_.empty() ? 0 : units_.back().first + units_.back().parts;
    units_.push_back({first, static_cast<std::uint32_t>(parts_.size()) - first + 1, {}});
    std::copy_n(turn_, 3, units_.back().turn);
    begins_ = false;
  } else if (!begins_ && !units_.empty()) {
    ++units_.back().parts;
  }
  parts_.push_back(part);
}

template <typename Visit>
void Tiles::for_each_access(const Unit& unit, bool innermost, Visit&& visit) const {
  for (std::uint32_t i = unit.first; i < unit.first + unit.parts; ++i) {
    const Part& part = parts_[i];
    if (innermost && !part.innermost) continue;
    const Execution& one = executions_[part.execution];
    const std::uint64_t* const addresses = pool_.data() + one.addresses;
    for (std::uint32_t k = 0; k < one.info.operations; ++k) {
      const std::uint32_t number = one.info.first_operation + k;
      const std::uint16_t instruction = code_.operations[number].instruction;
      if (instruction < part.from || instruction >= part.to) continue;
      if (addresses[k] != SS_NO_ADDRESS) visit(one.info.block, number, addresses[k]);
    }
  }
}

std::vector<std::uint32_t> Tiles::order() {
  std::vector<std::uint32_t> as_it_was(units_.size());
  for (std::uint32_t i = 0; i < as_it_was.size(); ++i) as_it_was[i] = i;
  // Parts behind the last unit belong to it.
  if (!units_.empty())
    units_.back().parts = static_cast<std::uint32_t>(parts_.size()) - units_.back().first;
  if (!refused_.empty() || units_.empty()) return as_it_was;
  std::vector<std::uint32_t> turns(3, 1);
  std::uint64_t all = 1;
  for (std::size_t i = 0; i < tiling_.loops.size(); ++i) {
    turns[i] = static_cast<std::uint32_t>(units_.back().turn[i] + 1);
    all *= turns[i];
  }
  if (all != units_.size()) {
    refuse("its loops do not always run equally often");
    return as_it_was;
  }
  for (std::uint32_t i = 0; i < units_.size(); ++i) {
    std::uint32_t rest = i;
    for (std::size_t loop = tiling_.loops.size(); loop-- > 0; rest /= turns[loop])
      if (units_[i].turn[loop] != static_cast<std::int32_t>(rest % turns[loop])) {
        refuse("its loops do not always run equally often");
        return as_it_was;
      }
  }
  std::vector<std::uint32_t> made = tiles(turns);
  if (!is_affine()) {
    refuse("its accesses are not evenly spaced in every loop");
    return as_it_was;
  }
  if (!keeps_order(made)) {
    refuse("accesses to the same bytes would change places");
    return as_it_was;
  }
  ++tiled_;
  return made;
}

std::vector<std::uint32_t> Tiles::tiles(const std::vector<std::uint32_t>& turns) const {
  std::vector<std::uint32_t> made;
  made.reserve(units_.size());
  const std::uint32_t tile = std::max(tiling_.tile, 1u);
  for (std::uint32_t jj = 0; jj < turns[1]; jj += tile)
    for (std::uint32_t kk = 0; kk < turns[2]; kk += tile)
      for (std::uint32_t i = 0; i < turns[0]; ++i)
        for (std::uint32_t j = jj; j < std::min(jj + tile, turns[1]); ++j)
          for (std::uint32_t k = kk; k < std::min(kk + tile, turns[2]); ++k)
            made.push_back((i * turns[1] + j) * turns[2] + k);
  return made;
}

// An instruction may stand in several blocks, and several times in one.
bool Tiles::is_affine() const {
  struct Fit {
    std::uint64_t base = 0, stride[3] = {0, 0, 0};
    std::uint32_t known = 0;  // strides, a bit each, and the base
  };
  std::map<std::pair<std::uint64_t, std::uint32_t>, Fit> fits;
  bool affine = true;
  for (const Unit& unit : units_) {
    std::uint64_t last = 0;
    std::uint32_t index = 0;  // within the instruction
    const auto look = [&](std::uint32_t block, std::uint32_t number, std::uint64_t address) {
      const std::uint64_t at = code_
                                   .instructions[code_.blocks[block].first_instruction +
                                                 code_.operations[number].instruction]
                                   .address;
      index = at == last ? index + 1 : 0;
      last = at;
      Fit& fit = fits[{at, index}];
      if (!(fit.known & 8)) {
        // Conditional code may run late; its first turn is then taken for what it is.
        affine &= unit.turn[0] == 0 && unit.turn[1] == 0 && unit.turn[2] <= 0;
        fit.base = address;
        fit.known = 8;
        return;
      }
      std::uint64_t expected = fit.base;
      int open = -1;
      for (int i = 0; i < 3; ++i) {
        if (unit.turn[i] <= 0) continue;
        if (!(fit.known >> i & 1)) {
          affine &= open < 0 && unit.turn[i] == 1;
          open = i;
        }
        expected += fit.stride[i] * static_cast<std::uint64_t>(unit.turn[i]);
      }
      if (open >= 0) {
        fit.stride[open] = address - expected;
        fit.known |= 1u << open;
        return;
      }
      affine &= expected == address;
    };
    for_each_access(unit, true, look);
    if (!affine) return false;
  }
  return affine;
}

// Whoever reads a byte reads what the same access wrote, and whoever writes it overwrites the same.
bool Tiles::keeps_order(const std::vector<std::uint32_t>& order) const {
  std::uint32_t least = 8;
  for (const Unit& unit : units_) {
    for_each_access(unit, false, [&](std::uint32_t, std::uint32_t number, std::uint64_t) {
      least = std::min(least, std::max(code_.operations[number].size, 1u));
    });
    if (&unit - units_.data() > 1) break;
  }
  const auto bits = static_cast<unsigned>(std::bit_width(std::bit_floor(least)) - 1);
  FlatMap<std::uint64_t> written;  // by which unit and access of it, by granule
  const auto seen_by = [&](std::uint32_t number_of_unit) {
    std::uint64_t hash = 0, access = 0;
    for_each_access(units_[number_of_unit], false,
                    [&](std::uint32_t, std::uint32_t number, std::uint64_t address) {
                      const stream::Operation& operation = code_.operations[number];
                      if (operation.is_prefetch()) return;
                      const std::uint64_t last = address + std::max(operation.size, 1u) - 1;
                      ++access;
                      for (std::uint64_t granule = address >> bits; granule <= last >> bits;
                           ++granule) {
                        if (operation.kind == SS_OP_KIND_LOAD) {
                          const std::uint64_t* const by = written.find(granule);
                          hash = mixed(hash, by ? *by : 0);
                          continue;
                        }
                        std::uint64_t& by = *written.try_emplace(granule).first;
                        hash = mixed(hash, by);
                        by = (std::uint64_t{number_of_unit} + 1) << 16 | access;
                      }
                    });
    return hash;
  };
  std::vector<std::uint64_t> before(units_.size());
  for (std::uint32_t i = 0; i < units_.size(); ++i) before[i] = seen_by(i);
  written = {};
  return std::all_of(order.begin(), order.end(),
                     [&](std::uint32_t unit) { return seen_by(unit) == before[unit]; });
}

}  // namespace stallscope::session
