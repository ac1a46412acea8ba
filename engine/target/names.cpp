// SPDX-License-Identifier: Apache-2.0
#include "target/names.h"

#include <utility>

namespace stallscope::target {

void Names::bury(std::uint64_t address, const Name& name, std::uint64_t when, ObjectTable& table) {
  table.append(
      {"named", name.text, "", address, name.size, name.born, when, name.thread, kNone32, ""});
}

void Names::give(std::uint64_t address, Name name, ObjectTable& gone) {
  auto [at, fresh] = live_.try_emplace(address, name);
  if (fresh) return;
  bury(address, at->second, name.born, gone);
  at->second = std::move(name);
}

void Names::release(std::uint64_t address, std::uint64_t size, std::uint64_t when,
                    ObjectTable& gone) {
  released_.clear();
  for (auto at = live_.lower_bound(address); at != live_.end() && at->first - address < size;) {
    if (at->second.size > size - (at->first - address)) {
      ++at;
      continue;
    }
    bury(at->first, at->second, when, gone);
    released_.push_back(std::move(*at));
    at = live_.erase(at);
  }
}

void Names::revive(std::uint64_t when) {
  for (auto& [address, name] : released_) {
    name.born = when;
    live_.insert_or_assign(address, std::move(name));
  }
  released_.clear();
}

void Names::fill_live(ObjectTable& table) const {
  for_each_live(
      [&](std::uint64_t address, const Name& name) { bury(address, name, kNever, table); });
}

}  // namespace stallscope::target
