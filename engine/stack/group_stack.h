// SPDX-License-Identifier: Apache-2.0
// The LRU stack as an operating system would keep it on line: a linked list in groups of pages, and
// a page knows its group only. The curve is exact at the sizes where groups meet and unknown in
// between; a reference moves one page over each boundary above it.
//
// Boundaries g, 2g, 3g, ... are page groups of size g; the three boundaries M-g, M, M+g are the
// form of four groups around a memory of M pages, whose cost is the same for every reference.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"
#include "stack/growing.h"
#include "stack/linked_order.h"
#include "stack/numbering.h"

namespace stallscope::stack {

class GroupStack {
 public:
  // Sizes of memory, at least 1, ascending; at most 65,535.
  static Result<GroupStack> make(std::vector<std::uint64_t> boundaries);
  // M-g, M and M+g. When M is not larger than g, the first is left out.
  static Result<GroupStack> around(std::uint64_t memory, std::uint64_t group);
  // g, 2g, ... up to `most` pages.
  static Result<GroupStack> every(std::uint64_t group, std::uint64_t most);

  Status append(std::span<const std::uint64_t> pages);
  const std::vector<std::uint64_t>& boundaries() const { return boundaries_; }
  std::vector<std::uint64_t> misses() const;  // at each boundary, in this epoch
  std::uint64_t references() const { return references_; }
  std::uint64_t moves() const { return moves_; }  // pages that crossed a boundary: the work done
  std::uint64_t distinct() const { return order_.size(); }
  std::uint64_t bytes() const { return numbering_.bytes() + order_.bytes() + groups_.bytes(); }
  void end_epoch();
  // When memory grew or shrank: groups are counted off anew, counts start again.
  Status set_boundaries(std::vector<std::uint64_t> boundaries);

 private:
  static Status check(const std::vector<std::uint64_t>& boundaries);
  void access(std::uint32_t page);
  void add(std::uint32_t page);
  void cross(std::size_t groups);

  Numbering numbering_;
  LinkedOrder order_;
  Growing<std::uint16_t> groups_;
  std::vector<std::uint64_t> boundaries_;
  std::vector<std::uint32_t> heads_;  // the first page behind a boundary, where there is one
  std::vector<std::uint64_t> counts_;
  std::uint64_t cold_ = 0, references_ = 0, moves_ = 0;
};

}  // namespace stallscope::stack
