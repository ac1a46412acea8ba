// SPDX-License-Identifier: Apache-2.0
#include "pipeline/meetings.h"

#include <bit>

namespace stallscope::pipeline {

using code::WorkFlow;

namespace {

// A called function comes back, and may have changed all but rbx, rsp, rbp and r12 to r15.
constexpr std::uint64_t kKept = 0b111ULL << 4 | 0b1111ULL << 13;

bool calls(const CoreInstruction& one) {
  return one.flow == WorkFlow::kCall || one.flow == WorkFlow::kIndirectCall;
}

}  // namespace

const Meeting& Meetings::of(const CoreInstruction& branch) {
  Known& known = known_[branch.address];
  if (known.meeting.address == 0 &&
      (known.targets != targets_.size() || known.instructions != code_.instructions.size())) {
    learn();
    known = {find(branch), targets_.size(), code_.instructions.size()};
  }
  return known.meeting;
}

void Meetings::learn() {
  for (; learnt_ < code_.instructions.size(); ++learnt_)
    places_[code_.instructions[learnt_].address] = static_cast<std::uint32_t>(learnt_);
}

unsigned Meetings::node_at(std::uint64_t address) {
  const auto place = places_.find(address);
  if (place == places_.end()) return kNone;
  for (unsigned i = 0; i < nodes_.size(); ++i)
    if (code_.instructions[nodes_[i].instruction].address == address) return i;
  if (nodes_.size() == kNodes) return kNone;
  nodes_.push_back({place->second});
  return static_cast<unsigned>(nodes_.size() - 1);
}

// What is called is not looked at, and what goes anywhere not followed.
void Meetings::connect(unsigned node) {
  const CoreInstruction& one = code_.instructions[nodes_[node].instruction];
  std::uint64_t ways[2];
  unsigned count = 0;
  if (one.flow == WorkFlow::kNext || one.flow == WorkFlow::kConditional || calls(one))
    ways[count++] = one.address + one.length;
  if (one.flow == WorkFlow::kConditional || one.flow == WorkFlow::kJump) {
    const auto target = targets_.find(one.address);
    if (target != targets_.end()) ways[count++] = target->second;
  }
  const unsigned expected = one.flow == WorkFlow::kConditional ? 2 : 1;
  bool leaves = count < expected;
  for (unsigned i = 0; i < count; ++i) {
    const unsigned next = node_at(ways[i]);
    if (next == kNone)
      leaves = true;
    else
      nodes_[node].next[nodes_[node].ways++] = next;
  }
  nodes_[node].leaves = leaves;
}

// By node, a bit for each node that every way from it passes, itself among them.
void Meetings::postdominators(std::vector<std::uint64_t>& found) const {
  found.assign(nodes_.size(), ~0ULL);
  for (bool changed = true; changed;) {
    changed = false;
    for (std::size_t i = nodes_.size(); i-- > 0;) {
      const Node& node = nodes_[i];
      std::uint64_t passed = node.leaves || node.ways == 0 ? 0 : ~0ULL;
      for (unsigned k = 0; k < node.ways; ++k) passed &= found[node.next[k]];
      passed |= 1ULL << i;
      changed |= passed != found[i];
      found[i] = passed;
    }
  }
}

std::uint64_t Meetings::changed_before(unsigned from, unsigned other, unsigned meeting) const {
  std::uint64_t seen = 1ULL << meeting, waiting = (1ULL << from | 1ULL << other) & ~seen;
  std::uint64_t changed = 0;
  while (waiting) {
    const auto at = static_cast<unsigned>(std::countr_zero(waiting));
    seen |= 1ULL << at;
    const CoreInstruction& one = code_.instructions[nodes_[at].instruction];
    for (std::uint32_t i = 0; i < one.count; ++i) {
      const MicroOp& op = code_.ops[one.first + i];
      for (const std::uint8_t result : op.results) changed |= 1ULL << result;
      changed |= 1ULL << op.stepped;
    }
    if (calls(one)) changed |= ~kKept;
    for (unsigned k = 0; k < nodes_[at].ways; ++k) waiting |= 1ULL << nodes_[at].next[k];
    waiting &= ~seen;
  }
  return changed;
}

Meeting Meetings::find(const CoreInstruction& branch) {
  const auto target = targets_.find(branch.address);
  if (target == targets_.end()) return {};
  nodes_.clear();
  const unsigned one = node_at(branch.address + branch.length), other = node_at(target->second);
  if (one == kNone || other == kNone) return {};
  for (unsigned i = 0; i < nodes_.size(); ++i) connect(i);
  std::vector<std::uint64_t> passed;
  postdominators(passed);
  // The nearest of those that both pass is passed before all others.
  unsigned meeting = kNone;
  int most = 0;
  for (std::uint64_t left = passed[one] & passed[other]; left; left &= left - 1) {
    const auto at = static_cast<unsigned>(std::countr_zero(left));
    const int behind = std::popcount(passed[at]);
    if (behind > most) {
      meeting = at;
      most = behind;
    }
  }
  if (meeting == kNone) return {};
  return {code_.instructions[nodes_[meeting].instruction].address,
          changed_before(one, other, meeting)};
}

}  // namespace stallscope::pipeline
