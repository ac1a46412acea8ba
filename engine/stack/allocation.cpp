// SPDX-License-Identifier: Apache-2.0
#include "stack/allocation.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <string>

namespace stallscope::stack {
namespace {

std::uint64_t benefit(const Claim& claim, std::uint64_t size, std::uint64_t group) {
  return claim.misses(size) - claim.misses(size + group);
}

Status enough(std::span<const Claim> claims, std::uint64_t memory) {
  if (claims.empty()) return Error{"memory for nobody", "there are no claims", ""};
  if (memory < claims.size())
    return Error{
        "a memory of " + std::to_string(memory) + " pages for " + std::to_string(claims.size()),
        "each needs one at least", "give them more memory"};
  return Done{};
}

// The fewest pages, at least one, with which the miss rate is at most `rate`.
std::uint64_t pages_for(const Claim& claim, double rate) {
  const auto& curve = claim.curve;
  const auto found = std::partition_point(curve.begin(), curve.end(), [&](std::uint64_t misses) {
    return static_cast<double>(misses) / claim.per > rate;
  });
  return std::max<std::uint64_t>(1, static_cast<std::uint64_t>(found - curve.begin()));
}

std::uint64_t sum(const Sizes& sizes) {
  return std::accumulate(sizes.begin(), sizes.end(), std::uint64_t{0});
}

// Pages that would change nothing any more are of no use to the one who has them.
void give(std::span<const Claim> claims, Sizes& sizes, std::uint64_t pages, std::uint64_t group) {
  while (pages > 0) {
    const std::uint64_t step = std::min(group, pages);
    std::size_t best = 0;
    for (std::size_t i = 1; i < claims.size(); ++i)
      if (benefit(claims[i], sizes[i], step) > benefit(claims[best], sizes[best], step)) best = i;
    const bool useless = benefit(claims[best], sizes[best], step) == 0;
    sizes[best] += useless ? pages : step;
    pages -= useless ? pages : step;
  }
}

}  // namespace

Sizes equal_shares(std::size_t claimants, std::uint64_t memory) {
  Sizes sizes(claimants, claimants ? memory / claimants : 0);
  for (std::size_t i = 0; i < (claimants ? memory % claimants : 0); ++i) ++sizes[i];
  return sizes;
}

Sizes balance(std::span<const Claim> claims, Sizes sizes, std::uint64_t group) {
  for (;;) {
    std::size_t to = claims.size(), from = claims.size();
    std::uint64_t most = 0, least = std::numeric_limits<std::uint64_t>::max();
    for (std::size_t i = 0; i < claims.size(); ++i) {
      const std::uint64_t gain = benefit(claims[i], sizes[i], group);
      if (gain > most) most = gain, to = i;
    }
    for (std::size_t i = 0; i < claims.size(); ++i) {
      if (i == to || sizes[i] <= group) continue;
      const std::uint64_t loss = benefit(claims[i], sizes[i] - group, group);
      if (loss < least) least = loss, from = i;
    }
    if (to == claims.size() || from == claims.size() || most <= least) return sizes;
    sizes[to] += group;
    sizes[from] -= group;
  }
}

Result<Sizes> throughput(std::span<const Claim> claims, std::uint64_t memory, std::uint64_t group) {
  if (Status status = enough(claims, memory); !status) return status.error();
  if (group == 0) return Error{"groups of 0 pages", "a group has at least one", ""};
  return balance(claims, equal_shares(claims.size(), memory), group);
}

Result<Sizes> fewest_misses(std::span<const Claim> claims, std::uint64_t memory,
                            std::uint64_t group) {
  if (Status status = enough(claims, memory); !status) return status.error();
  const std::uint64_t groups = group ? memory / group : 0;
  if (groups < claims.size() || groups > 4096)
    return Error{
        "groups of " + std::to_string(group) + " pages in a memory of " + std::to_string(memory),
        "there must be one for each and at most 4096", "choose another size of a group"};
  // best[n]: the fewest misses of the claims so far with n groups; picks remember the last one's.
  std::vector<std::uint64_t> best(groups + 1, 0);
  std::vector<std::vector<std::uint16_t>> picks;
  for (const Claim& claim : claims) {
    std::vector<std::uint64_t> next(groups + 1, std::numeric_limits<std::uint64_t>::max());
    auto& pick = picks.emplace_back(groups + 1);
    for (std::uint64_t n = picks.size(); n <= groups; ++n)
      for (std::uint64_t own = 1; own <= n - (picks.size() - 1); ++own) {
        const std::uint64_t misses = best[n - own] + claim.misses(own * group);
        if (misses < next[n]) next[n] = misses, pick[n] = static_cast<std::uint16_t>(own);
      }
    best = std::move(next);
  }
  Sizes sizes(claims.size());
  std::uint64_t left = groups;
  for (std::size_t i = claims.size(); i-- > 0;) {
    sizes[i] = picks[i][left] * group;
    left -= picks[i][left];
  }
  sizes[0] += memory - sum(sizes);
  return sizes;
}

Result<Sizes> equal_rates(std::span<const Claim> claims, std::uint64_t memory) {
  if (Status status = enough(claims, memory); !status) return status.error();
  const auto at = [&](double line) {
    Sizes sizes;
    for (const Claim& claim : claims) sizes.push_back(pages_for(claim, line / claim.priority));
    return sizes;
  };
  double high = 0;
  for (const Claim& claim : claims) high = std::max(high, claim.rate(0) * claim.priority);
  double low = 0;
  if (sum(at(low)) <= memory) high = low;
  for (int i = 0; i < 100 && high > low; ++i) {
    const double middle = (low + high) / 2;
    (sum(at(middle)) <= memory ? high : low) = middle;
  }
  Sizes sizes = at(high);
  // A step of the curves that memory does not reach: those at its foot share what is left over.
  for (std::uint64_t left = memory - sum(sizes); left > 0; --left) {
    std::size_t worst = 0;
    for (std::size_t i = 1; i < claims.size(); ++i)
      if (claims[i].rate(sizes[i]) * claims[i].priority >
          claims[worst].rate(sizes[worst]) * claims[worst].priority)
        worst = i;
    ++sizes[worst];
  }
  return sizes;
}

Result<Service> service_levels(std::span<const Claim> claims, std::uint64_t memory,
                               std::uint64_t group) {
  if (Status status = enough(claims, memory); !status) return status.error();
  if (group == 0) return Error{"groups of 0 pages", "a group has at least one", ""};
  std::vector<std::size_t> order(claims.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return claims[a].priority > claims[b].priority;
  });
  Service service{Sizes(claims.size(), 1), {}};
  std::uint64_t left = memory - claims.size();
  for (const std::size_t i : order) {
    const std::uint64_t more = std::min(left, pages_for(claims[i], claims[i].level) - 1);
    service.sizes[i] += more;
    left -= more;
  }
  give(claims, service.sizes, left, group);
  for (std::size_t i = 0; i < claims.size(); ++i)
    service.met.push_back(claims[i].rate(service.sizes[i]) <= claims[i].level);
  return service;
}

}  // namespace stallscope::stack
