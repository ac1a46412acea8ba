// SPDX-License-Identifier: Apache-2.0
#include "types/body.h"

#include <algorithm>

namespace stallscope::types {
namespace {

using code::Flow;

bool ends_block(const Step& step) {
  return step.instruction.flow != Flow::kNext && step.instruction.flow != Flow::kCall;
}

// False when there are more instructions, or bytes that are none, than `left`.
bool read_range(const symbols::Symbols& symbols, const symbols::AddressRange& range,
                std::uint64_t& left, std::vector<Step>& steps) {
  auto bytes = symbols.code_from(range.low);
  if (bytes.size() > range.high - range.low) bytes = bytes.first(range.high - range.low);
  for (std::size_t at = 0; at < bytes.size();) {
    if (left-- == 0) return false;
    const std::uint64_t address = range.low + at;
    auto decoded = code::decode(bytes.subspan(at), Address(address));
    if (!decoded) {
      ++at;
      continue;
    }
    at += decoded->length;
    const code::Effect effect = code::effect_of(bytes.subspan(at - decoded->length), *decoded);
    steps.push_back({address, *decoded, effect});
  }
  return true;
}

class Cutter {
 public:
  Cutter(Body& body, std::uint64_t entry) : body_(body), entry_(step_at(entry)) {}

  void cut() {
    mark_leaders();
    for (std::uint32_t i = 0; i < body_.steps.size(); ++i) {
      if (leads_[i]) body_.blocks.push_back({i, 0, {}});
      ++body_.blocks.back().count;
      block_of_.push_back(static_cast<std::uint32_t>(body_.blocks.size() - 1));
    }
    for (std::uint32_t b = 0; b < body_.blocks.size(); ++b) link(b);
    body_.entry = block_of_[entry_];
    link_tables();
  }

 private:
  std::uint32_t step_at(std::uint64_t address) const {
    auto at = std::lower_bound(body_.steps.begin(), body_.steps.end(), address,
                               [](const Step& s, std::uint64_t a) { return s.address < a; });
    if (at == body_.steps.end() || at->address != address) return kNone;
    return static_cast<std::uint32_t>(at - body_.steps.begin());
  }

  void mark_leaders() {
    leads_.assign(body_.steps.size(), 0);
    leads_[0] = leads_[entry_] = 1;
    for (std::size_t i = 0; i < body_.steps.size(); ++i) {
      const Step& step = body_.steps[i];
      if (ends_block(step) && step.instruction.target) {
        const std::uint32_t to = step_at(step.instruction.target->value);
        if (to != kNone) leads_[to] = 1;
      }
      const bool is_last = i + 1 == body_.steps.size();
      if (is_last) continue;
      const bool follows = body_.steps[i + 1].address == step.address + step.instruction.length;
      if (ends_block(step) || !follows) leads_[i + 1] = 1;
    }
  }

  void link(std::uint32_t number) {
    Block& block = body_.blocks[number];
    const Step& last = body_.steps[block.first + block.count - 1];
    const Flow flow = last.instruction.flow;
    if (flow != Flow::kJump && flow != Flow::kReturn) {
      const std::uint32_t behind = step_at(last.address + last.instruction.length);
      if (behind != kNone) block.next.push_back(block_of_[behind]);
    }
    if (ends_block(last) && last.instruction.target) {
      const std::uint32_t to = step_at(last.instruction.target->value);
      if (to != kNone) block.next.push_back(block_of_[to]);
    }
  }

  // A jump through a table may lead to every block that nothing else leads to.
  void link_tables() {
    std::vector<std::uint8_t> is_entered(body_.blocks.size());
    is_entered[body_.entry] = 1;
    for (const Block& block : body_.blocks)
      for (std::uint32_t next : block.next) is_entered[next] = 1;
    std::vector<std::uint32_t> orphans;
    for (std::uint32_t b = 0; b < body_.blocks.size(); ++b)
      if (!is_entered[b]) orphans.push_back(b);
    std::size_t links = 0;
    for (Block& block : body_.blocks) {
      const code::Instruction& last = body_.steps[block.first + block.count - 1].instruction;
      if (last.flow != Flow::kJump || last.target) continue;
      if ((links += orphans.size()) > kMostLinks) return;
      block.next.insert(block.next.end(), orphans.begin(), orphans.end());
    }
  }

  static constexpr std::uint32_t kNone = 0xFFFF'FFFF;
  static constexpr std::size_t kMostLinks = 100'000;
  Body& body_;
  std::uint32_t entry_;  // step
  std::vector<std::uint8_t> leads_;
  std::vector<std::uint32_t> block_of_;  // by step
};

}  // namespace

Body read_body(const symbols::Symbols& symbols, const symbols::Function& function,
               std::uint64_t most) {
  Body body;
  // The first range is the one that is entered; cold parts may lie in front of it.
  for (const symbols::AddressRange& range : function.ranges)
    if (!read_range(symbols, range, most, body.steps)) return {};
  if (body.steps.empty()) return {};
  const std::uint64_t entry = body.steps.front().address;
  std::sort(body.steps.begin(), body.steps.end(),
            [](const Step& a, const Step& b) { return a.address < b.address; });
  auto same = std::unique(body.steps.begin(), body.steps.end(),
                          [](const Step& a, const Step& b) { return a.address == b.address; });
  body.steps.erase(same, body.steps.end());
  Cutter(body, entry).cut();
  return body;
}

}  // namespace stallscope::types
