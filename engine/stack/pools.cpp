// SPDX-License-Identifier: Apache-2.0
#include "stack/pools.h"

#include <algorithm>

#include "stack/simulated.h"

namespace stallscope::stack {

struct Pools::Pool {
  Numbering numbering;
  LinkedOrder order;  // pages in memory
  Growing<bool> resident;
  Growing<std::uint32_t> numbers;  // in the order of all
  LruStack lru{1};
  MruStack mru{1};
  std::vector<std::uint64_t> unlearned;
  PoolState state, before;  // now, and when the epoch began
  std::uint32_t counter = 0;
  std::uint64_t share = 0;  // what it is granted, or would be if pools did not live together

  Claim claim() const {
    return {state.mru ? mru.counts().epoch_curve() : lru.counts().epoch_curve()};
  }
};

Pools::Pools(const PoolOptions& options)
    : options_(options),
      pools_(options.pools),
      rival_(options.memory, options.threshold),
      free_(options.memory) {
  options_.priorities.resize(options.pools, 1.0);
  options_.levels.resize(options.pools, 0.0);
  if (options_.sharing != "fixed") return;
  const Sizes sizes = equal_shares(pools_.size(), options_.memory);
  for (std::size_t i = 0; i < sizes.size(); ++i) pools_[i].state.granted = sizes[i];
  free_ = 0;
}
Pools::Pools(Pools&&) = default;
Pools::~Pools() = default;

Result<Pools> Pools::make(const PoolOptions& options) {
  const std::string_view known[] = {"throughput", "equal", "service", "fixed", "global"};
  if (std::find(std::begin(known), std::end(known), options.sharing) == std::end(known))
    return Error{"there is no way of sharing called " + options.sharing, "",
                 "one of: throughput, equal, service, fixed, global"};
  if (options.pools == 0 || options.memory < options.pools || options.memory > kMostPages)
    return Error{"a memory of " + std::to_string(options.memory) + " pages for " +
                     std::to_string(options.pools) + " pools",
                 "each needs one at least, and " + std::to_string(kMostPages) + " are the most",
                 ""};
  if (options.group == 0 || options.epoch == 0 || options.patience == 0)
    return Error{"pools without a group of pages, an epoch or patience", "each is at least 1", ""};
  for (const auto* list : {&options.priorities, &options.levels})
    if (!list->empty() && list->size() != options.pools)
      return Error{std::to_string(list->size()) + " priorities or levels for " +
                       std::to_string(options.pools) + " pools",
                   "", "give one for each"};
  if (std::any_of(options.priorities.begin(), options.priorities.end(),
                  [](double priority) { return !(priority > 0); }))
    return Error{"a priority of 0 or less", "priorities are above 0", ""};
  return Pools(options);
}

Status Pools::append(std::span<const std::uint64_t> pages, std::span<const std::uint32_t> pools) {
  if (pages.size() != pools.size())
    return Error{
        std::to_string(pools.size()) + " pools for " + std::to_string(pages.size()) + " references",
        "", "give one for each"};
  for (std::size_t i = 0; i < pages.size(); ++i) {
    if (pools[i] >= pools_.size())
      return Error{"a reference to pool " + std::to_string(pools[i]),
                   "there are " + std::to_string(pools_.size()), ""};
    access(pools[i], pages[i]);
    if (++in_epoch_ == options_.epoch)
      if (Status status = end_epoch(); !status) return status;
  }
  return Done{};
}

void Pools::access(std::uint32_t index, std::uint64_t key) {
  Pool& pool = pools_[index];
  std::uint32_t page;
  const std::uint32_t before = pool.numbering.size();
  pool.numbering.number({&key, 1}, 0, 1, &page);
  const bool is_new = pool.numbering.size() != before;
  if (is_new) {
    pool.order.reserve(before + 1);
    pool.resident.reserve(before + 1);
    if (ordered()) {
      pool.numbers.reserve(before + 1);
      pool.numbers[page] = static_cast<std::uint32_t>(owners_.size());
      owners_.emplace_back(index, page);
      order_.reserve(static_cast<std::uint32_t>(owners_.size()));
    }
  }
  ++pool.state.references;
  pool.unlearned.push_back(key);
  if (rivalled()) rival_.access(pool.numbers[page]);
  if (pool.resident[page]) {
    if (ordered()) order_.renew(pool.numbers[page]);
    pool.order.renew(page);
    return;
  }
  ++pool.state.misses;
  pool.state.cold += is_new;
  make_frame(pool);
  pool.resident[page] = true;
  if (ordered()) order_.add(pool.numbers[page]);
  pool.order.add(page);
}

// Takes a free frame, one of its own, or, when it has none at all, one of the largest pool.
void Pools::make_frame(Pool& pool) {
  if (free_ > 0) {
    --free_;
    ++pool.state.granted;
  } else if (together()) {
    throw_out_oldest();
    ++pool.state.granted;
  } else if (pool.state.granted == 0) {
    Pool& largest = *std::max_element(
        pools_.begin(), pools_.end(),
        [](const Pool& a, const Pool& b) { return a.state.granted < b.state.granted; });
    if (largest.order.size() == largest.state.granted) throw_out(largest);
    --largest.state.granted;
    ++pool.state.granted;
  } else if (pool.order.size() == pool.state.granted) {
    throw_out(pool);
  }
}

void Pools::throw_out(Pool& pool) {
  drop(pool, pool.state.mru ? pool.order.newest() : pool.order.oldest());
}

void Pools::throw_out_oldest() {
  const auto [index, page] = owners_[order_.oldest()];
  drop(pools_[index], page);
  --pools_[index].state.granted;
}

void Pools::drop(Pool& pool, std::uint32_t page) {
  if (ordered()) order_.remove(pool.numbers[page]);
  pool.order.remove(page);
  pool.resident[page] = false;
}

Status Pools::learn() {
  for (Pool& pool : pools_) {
    if (Status status = pool.lru.append(pool.unlearned); !status) return status;
    if (options_.choose_policy)
      if (Status status = pool.mru.append(pool.unlearned); !status) return status;
    pool.unlearned.clear();
  }
  return Done{};
}

void Pools::choose(Pool& pool) {
  const std::uint64_t misses = pool.state.misses - pool.before.misses;
  if (misses - (pool.state.cold - pool.before.cold) < options_.threshold) return;
  const Claim lru{pool.lru.counts().epoch_curve()}, mru{pool.mru.counts().epoch_curve()};
  const std::uint64_t by_lru = lru.misses(pool.share), by_mru = mru.misses(pool.share);
  if (by_mru < by_lru)
    pool.counter = std::min(pool.counter + 1, options_.patience);
  else if (by_lru < by_mru)
    pool.counter -= pool.counter > 0;
  const bool wants_mru = pool.state.mru ? pool.counter > 0 : pool.counter == options_.patience;
  pool.state.switches += wants_mru != pool.state.mru;
  pool.state.mru = wants_mru;
}

Result<Sizes> Pools::share() const {
  std::vector<Claim> claims;
  Sizes sizes;
  for (std::size_t i = 0; i < pools_.size(); ++i) {
    const Pool& pool = pools_[i];
    claims.push_back(pool.claim());
    claims.back().priority = options_.priorities[i];
    claims.back().level = options_.levels[i];
    sizes.push_back(pool.share);
  }
  const std::uint64_t memory = options_.memory;
  if (options_.sharing == "equal") return equal_rates(claims, memory);
  if (options_.sharing == "service") {
    auto service = service_levels(claims, memory, options_.group);
    if (!service) return service.error();
    return service->sizes;
  }
  return balance(claims, sizes, options_.group);
}

std::uint64_t Pools::misses_apart() const {
  std::uint64_t misses = 0;
  for (const Pool& pool : pools_)
    misses += rival_.together() ? pool.claim().misses(pool.share)
                                : pool.state.misses - pool.before.misses;
  return misses;
}

// Each pool gets what the epoch says it should have, or would get it.
Status Pools::divide() {
  const Result<Sizes> sizes = share();
  if (!sizes) return sizes.error();
  for (std::size_t i = 0; i < pools_.size(); ++i) pools_[i].share = (*sizes)[i];
  if (together()) return Done{};
  for (Pool& pool : pools_) {
    pool.state.granted = pool.share;
    while (pool.order.size() > pool.share) throw_out(pool);
  }
  free_ = 0;
  return Done{};
}

// From now on pages are thrown out in one order.
void Pools::join() {
  free_ = options_.memory;
  for (Pool& pool : pools_) free_ -= pool.state.granted = pool.order.size();
}

Status Pools::end_epoch() {
  const bool was_together = rival_.together(), full = free_ == 0 || was_together;
  if (!was_together)
    for (Pool& pool : pools_) pool.share = pool.state.granted;
  const bool learns = !global() && (options_.sharing != "fixed" || options_.choose_policy);
  if (learns)
    if (Status status = learn(); !status) return status;
  const std::uint64_t apart = rivalled() ? misses_apart() : 0;
  if (learns && options_.choose_policy)
    for (Pool& pool : pools_) choose(pool);
  for (std::uint32_t i = 0; i < pools_.size(); ++i) {
    const PoolState &now = pools_[i].state, &then = pools_[i].before;
    history_.push_back(
        {epochs_,
         i,
         {now.references - then.references, now.misses - then.misses, now.cold - then.cold,
          now.granted, now.switches - then.switches, now.mru, together()}});
  }
  if (rivalled() && rival_.decide(apart) && !was_together) join();
  if (!global() && options_.sharing != "fixed" && full)
    if (Status status = divide(); !status) return status;
  for (Pool& pool : pools_) {
    pool.before = pool.state;
    pool.unlearned.clear();
    pool.lru.end_epoch();
    pool.mru.end_epoch();
  }
  in_epoch_ = 0;
  ++epochs_;
  return Done{};
}

std::vector<PoolState> Pools::states() const {
  std::vector<PoolState> states;
  for (const Pool& pool : pools_) {
    states.push_back(pool.state);
    states.back().together = together();
  }
  return states;
}

}  // namespace stallscope::stack
