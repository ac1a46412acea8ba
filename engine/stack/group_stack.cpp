// SPDX-License-Identifier: Apache-2.0
#include "stack/group_stack.h"

#include <algorithm>
#include <array>
#include <string>

namespace stallscope::stack {

Status GroupStack::check(const std::vector<std::uint64_t>& boundaries) {
  if (boundaries.empty() || boundaries.size() > UINT16_MAX)
    return Error{std::to_string(boundaries.size()) + " boundaries of page groups",
                 "there must be 1 to 65535", "use larger groups"};
  if (boundaries[0] == 0 || std::adjacent_find(boundaries.begin(), boundaries.end(),
                                               std::greater_equal<>()) != boundaries.end())
    return Error{"boundaries of page groups out of order", "they must ascend from 1 or more", ""};
  return Done{};
}

Result<GroupStack> GroupStack::make(std::vector<std::uint64_t> boundaries) {
  GroupStack stack;
  if (Status status = stack.set_boundaries(std::move(boundaries)); !status) return status.error();
  return stack;
}

Result<GroupStack> GroupStack::around(std::uint64_t memory, std::uint64_t group) {
  if (memory == 0 || group == 0)
    return Error{"no pages", "memory and group must be at least one page", ""};
  std::vector<std::uint64_t> boundaries;
  if (memory > group) boundaries.push_back(memory - group);
  boundaries.push_back(memory);
  boundaries.push_back(memory + group);
  return make(std::move(boundaries));
}

Result<GroupStack> GroupStack::every(std::uint64_t group, std::uint64_t most) {
  if (group == 0 || most / group == 0 || most / group > UINT16_MAX)
    return Error{"groups of " + std::to_string(group) + " pages up to " + std::to_string(most),
                 "there must be 1 to 65535 groups", "choose another size of a group"};
  std::vector<std::uint64_t> boundaries;
  for (std::uint64_t size = group; size <= most; size += group) boundaries.push_back(size);
  return make(std::move(boundaries));
}

Status GroupStack::set_boundaries(std::vector<std::uint64_t> boundaries) {
  if (Status status = check(boundaries); !status) return status;
  boundaries_ = std::move(boundaries);
  heads_.assign(boundaries_.size(), 0);
  end_epoch();
  std::size_t group = 0;
  std::uint64_t place = 0;
  for (std::uint32_t page = order_.newest(); page != kNone; page = order_.older(page), ++place) {
    if (group < boundaries_.size() && place == boundaries_[group]) heads_[group++] = page;
    groups_[page] = static_cast<std::uint16_t>(group);
  }
  return Done{};
}

void GroupStack::end_epoch() {
  counts_.assign(boundaries_.size() + 1, 0);
  cold_ = references_ = moves_ = 0;
}

std::vector<std::uint64_t> GroupStack::misses() const {
  std::vector<std::uint64_t> misses(boundaries_.size());
  std::uint64_t sum = cold_;
  for (std::size_t i = misses.size(); i-- > 0;) misses[i] = sum += counts_[i + 1];
  return misses;
}

// The page before each of the first boundaries falls behind it.
void GroupStack::cross(std::size_t groups) {
  for (std::size_t i = 0; i < groups; ++i) {
    const std::uint32_t page = order_.newer(heads_[i]);
    heads_[i] = page;
    groups_[page] = static_cast<std::uint16_t>(i + 1);
  }
  moves_ += groups;
}

void GroupStack::add(std::uint32_t page) {
  ++cold_;
  const std::uint32_t size = order_.size();
  const auto reached = std::lower_bound(boundaries_.begin(), boundaries_.end(), size);
  const std::size_t behind = static_cast<std::size_t>(reached - boundaries_.begin());
  cross(behind);
  if (reached != boundaries_.end() && *reached == size) {
    heads_[behind] = order_.oldest();
    groups_[order_.oldest()] = static_cast<std::uint16_t>(behind + 1);
    ++moves_;
  }
  order_.add(page);
  groups_[page] = 0;
}

void GroupStack::access(std::uint32_t page) {
  if (page == order_.size()) return add(page);  // new pages are numbered in turn
  const std::uint16_t group = groups_[page];
  ++counts_[group];
  // A page that was the first of its group leaves the place to the one that crosses.
  cross(group);
  order_.renew(page);
  groups_[page] = 0;
}

Status GroupStack::append(std::span<const std::uint64_t> pages) {
  constexpr std::size_t kBatch = 1024, kAhead = 16;
  std::array<std::uint32_t, kBatch> numbers;
  for (std::size_t from = 0; from < pages.size(); from += kBatch) {
    const std::size_t to = std::min(from + kBatch, pages.size()), n = to - from;
    numbering_.number(pages, from, to, numbers.data());
    order_.reserve(numbering_.size());
    groups_.reserve(numbering_.size());
    for (std::size_t i = 0; i < n; ++i) {
      if (i + kAhead < n) order_.prefetch(numbers[i + kAhead]);
      access(numbers[i]);
    }
    references_ += n;
  }
  return Done{};
}

}  // namespace stallscope::stack
