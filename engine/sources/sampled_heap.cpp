// SPDX-License-Identifier: Apache-2.0
#include "sources/sampled_heap.h"

namespace stallscope::sources {

void SampledHeap::inherit(SampledHeap& parent) {
  parent.open();  // nobody may have asked for it yet
  logs_ = parent.logs_;
}

bool SampledHeap::open() {
  if (own_ || path_.empty()) return own_;
  auto opened = HeapLog::open(path_);
  if (!opened) return false;
  logs_.insert(logs_.begin(), std::make_shared<HeapLog>(std::move(*opened)));
  own_ = true;
  poll();  // it may have been there for a while
  return true;
}

std::uint32_t SampledHeap::number_of(std::size_t log, std::uint32_t site) {
  const auto next = static_cast<std::uint32_t>(numbers_.size());
  return numbers_.try_emplace({logs_[log].get(), site}, next).first->second;
}

// Those that died since are looked at first: what lives there now may be younger than the time.
const SampledHeap::Large* SampledHeap::large_at(std::uint64_t address, std::uint64_t time) const {
  for (auto dead = gone_.rbegin(); dead != gone_.rend() && dead->died > time; ++dead)
    if (dead->born <= time && address - dead->address < dead->size) return &*dead;
  const auto after = large_.upper_bound(address);
  if (after == large_.begin()) return nullptr;
  const Large& block = std::prev(after)->second;
  return address - block.address < block.size ? &block : nullptr;
}

std::optional<SampledHeap::Named> SampledHeap::find(std::uint64_t address, std::uint64_t time) {
  open();
  if (const Large* block = large_at(address, time)) return Named{block->site, 1};
  for (std::size_t i = 0; i < logs_.size(); ++i)
    if (const auto block = logs_[i]->find(Address(address)))
      return Named{number_of(i, block->site), 1};
  // The sample is from a moment ago: what is free now need not have been then.
  if (own_ && !logs_.front()->is_sampled())
    if (const auto block = logs_.front()->find_freed(Address(address)))
      return Named{number_of(0, block->site), 1};
  for (std::size_t i = 0; i < logs_.size(); ++i)
    if (const auto guess = logs_[i]->guess(Address(address)))
      return Named{number_of(i, guess->site), guess->confidence};
  return std::nullopt;
}

void SampledHeap::poll() {
  if (!open()) return;
  for (const LargeEvent& event : logs_.front()->poll()) {
    const std::uint64_t when = event.time > started_ ? event.time - started_ : 0;
    const auto before = large_.find(event.address.value);
    if (before != large_.end()) {
      before->second.died = when;
      gone_.push_back(before->second);
      large_.erase(before);
    }
    if (event.is_birth)
      large_.emplace(event.address.value, Large{event.address.value, event.size, when, kNever,
                                                number_of(0, event.site), event.thread});
  }
}

std::vector<SampledHeap::Site> SampledHeap::sites() {
  std::vector<Site> found;
  open();
  for (std::size_t i = 0; i < logs_.size(); ++i) {
    const bool own = i == 0 && own_;
    auto sites = logs_[i]->sites();
    if (!sites) continue;
    for (HeapSite& site : *sites) {
      // Of a parent's, only those that samples fell into.
      if (!own && !numbers_.contains({logs_[i].get(), site.number})) continue;
      found.push_back({number_of(i, site.number), std::move(site.frames), own ? site.blocks : 0,
                       own ? site.bytes : 0});
    }
  }
  return found;
}

void SampledHeap::fill_large(const std::map<std::uint32_t, std::uint32_t>& threads,
                             ObjectTable& table) const {
  const auto fill = [&](const Large& block) {
    const auto thread = threads.find(block.thread);
    table.append({"heap", "", "", block.address, block.size, block.born, block.died,
                  thread == threads.end() ? 0 : thread->second, block.site, "malloc"});
  };
  for (const Large& block : gone_) fill(block);
  for (const auto& [address, block] : large_) fill(block);
}

std::uint64_t SampledHeap::passed() { return open() ? logs_.front()->image().passed : 0; }

HeapLost SampledHeap::lost() { return open() ? logs_.front()->lost() : HeapLost{}; }

}  // namespace stallscope::sources
