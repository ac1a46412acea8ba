// SPDX-License-Identifier: Apache-2.0
// How to share memory among programs, or among the regions of one, by their curves.
//
// With M pages a claimant misses curve(M) times; with g pages more it would gain
// benefit(g) = curve(M) - curve(M+g), with g pages less lose penalty(g) = curve(M-g) - curve(M).
// A program with regions offers its largest region's benefit and its smallest penalty, which is the
// same as every region claiming for itself.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"

namespace stallscope::stack {

struct Claim {
  std::vector<std::uint64_t> curve;  // misses at each size from 0; the last holds for all larger
  double per = 1;                    // what a rate is per: references, or a time
  double priority = 1;               // the higher, the fewer misses it shall have
  double level = 0;                  // service level: the miss rate that it may have at most

  std::uint64_t misses(std::uint64_t pages) const {
    return curve.empty() ? 0 : curve[pages < curve.size() ? pages : curve.size() - 1];
  }
  double rate(std::uint64_t pages) const { return static_cast<double>(misses(pages)) / per; }
};

using Sizes = std::vector<std::uint64_t>;  // pages of each claimant

// Equal shares; the first ones get what is left over.
Sizes equal_shares(std::size_t claimants, std::uint64_t memory);

// Moves `group` pages at a time from the least penalty to the largest benefit while that gains,
// from given sizes on. Each keeps at least one page. It stops at a flat stretch of a curve, like
// the original.
Sizes balance(std::span<const Claim> claims, Sizes sizes, std::uint64_t group);

// balance() from equal shares on.
Result<Sizes> throughput(std::span<const Claim> claims, std::uint64_t memory, std::uint64_t group);

// The sizes with the fewest misses in all, to a group: the bound for balance(). At most 4,096
// groups of memory, each claimant gets one at least.
Result<Sizes> fewest_misses(std::span<const Claim> claims, std::uint64_t memory,
                            std::uint64_t group);

// The sizes at which all have the same miss rate times priority, or as near as their curves go.
Result<Sizes> equal_rates(std::span<const Claim> claims, std::uint64_t memory);

// Each gets what its level needs, by priority while there is enough; what is left over goes where
// it benefits most. `met` says of each whether its level is kept.
struct Service {
  Sizes sizes;
  std::vector<bool> met;
};
Result<Service> service_levels(std::span<const Claim> claims, std::uint64_t memory,
                               std::uint64_t group);

}  // namespace stallscope::stack
