// SPDX-License-Identifier: Apache-2.0
// Pages from newest to oldest in a linked list, for those who walk along it or change its length
// from both ends. Who only needs the oldest is faster with a LazyList.
#pragma once

#include <cstdint>

#include "stack/growing.h"
#include "stack/policy.h"

namespace stallscope::stack {

class LinkedOrder {
 public:
  std::uint32_t size() const { return size_; }
  std::uint32_t newest() const { return newest_; }  // kNone when empty, like oldest()
  std::uint32_t oldest() const { return oldest_; }
  std::uint32_t newer(std::uint32_t page) const { return nodes_[page].newer; }  // kNone at the end
  std::uint32_t older(std::uint32_t page) const { return nodes_[page].older; }

  // The page is not in the list.
  void add(std::uint32_t page) {
    nodes_[page] = {kNone, newest_};
    (newest_ == kNone ? oldest_ : nodes_[newest_].newer) = page;
    newest_ = page;
    ++size_;
  }
  void remove(std::uint32_t page) {
    const auto [newer, older] = nodes_[page];
    (newer == kNone ? newest_ : nodes_[newer].older) = older;
    (older == kNone ? oldest_ : nodes_[older].newer) = newer;
    --size_;
  }
  void renew(std::uint32_t page) {
    if (page == newest_) return;
    remove(page);
    add(page);
  }

  void reserve(std::uint32_t pages) { nodes_.reserve(pages); }
  STALLSCOPE_INLINE void prefetch(std::uint32_t page) const { nodes_.prefetch(page); }
  std::uint64_t bytes() const { return nodes_.bytes(); }

 private:
  struct Node {
    std::uint32_t newer, older;
  };
  Growing<Node> nodes_;
  std::uint32_t newest_ = kNone, oldest_ = kNone, size_ = 0;
};

}  // namespace stallscope::stack
