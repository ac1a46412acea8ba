// SPDX-License-Identifier: Apache-2.0
// Where the two ways behind a branch meet again, whichever was taken: the nearest instruction that
// both lead to, its immediate postdominator among the instructions near the branch that ran so far.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "pipeline/lowering.h"

namespace stallscope::pipeline {

struct Meeting {
  std::uint64_t address = 0;  // 0: they do not meet nearby, or not both ways are known
  std::uint64_t changed = 0;  // a bit for each register that is written on either way
};

class Meetings {
 public:
  explicit Meetings(const Lowered& code) : code_(code) {}

  // A branch or jump to a fixed place was seen to go there.
  void went(const CoreInstruction& branch, std::uint64_t to) { targets_[branch.address] = to; }
  // Of a conditional branch. Kept until something new of its surroundings is known.
  const Meeting& of(const CoreInstruction& branch);

 private:
  static constexpr unsigned kNodes = 64;  // instructions that are looked at
  static constexpr unsigned kNone = kNodes;
  struct Node {
    std::uint32_t instruction = 0;
    unsigned next[2] = {kNone, kNone};
    unsigned ways = 0;    // how many of them there are
    bool leaves = false;  // and one that is not followed
  };
  struct Known {
    Meeting meeting;
    std::size_t targets = 0, instructions = 0;  // that were known when it was found
  };

  void learn();
  Meeting find(const CoreInstruction& branch);
  unsigned node_at(std::uint64_t address);
  void connect(unsigned node);
  void postdominators(std::vector<std::uint64_t>& found) const;
  std::uint64_t changed_before(unsigned from, unsigned other, unsigned meeting) const;

  const Lowered& code_;
  std::unordered_map<std::uint64_t, std::uint32_t> places_;  // instruction by address
  std::unordered_map<std::uint64_t, std::uint64_t> targets_;
  std::unordered_map<std::uint64_t, Known> known_;  // by the branch's address
  std::size_t learnt_ = 0;                          // instructions that have their place
  std::vector<Node> nodes_;                         // of the search under way
};

}  // namespace stallscope::pipeline
