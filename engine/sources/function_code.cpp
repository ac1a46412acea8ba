// SPDX-License-Identifier: Apache-2.0
#include "sources/function_code.h"

#include <elf.h>

#include <algorithm>

namespace stallscope::sources {
namespace {

constexpr std::size_t kMostBytes = 1 << 20;  // of one function: more is no function
constexpr std::size_t kNowhere = FunctionCode::kNowhere;

// Control flow from the function's start, depth first. A jump to a step that is on the way there
// goes round a loop; one to a step that other ways led to before is where branches join, also when
// its place is behind: compilers put what is seldom done at the end. (That is exact where no jump
// leads into the midst of a loop.)
class Walk {
 public:
  explicit Walk(const FunctionCode& code) : code_(code), seen_(code.steps.size(), State::kNew) {
    if (seen_.empty()) return;
    enter(0);
    while (!way_.empty()) advance();
  }
  bool reached(std::size_t step) const { return seen_[step] != State::kNew; }
  // Whether control comes from the step in front as well.
  bool falls_into(std::size_t step) const {
    return step > 0 && step < seen_.size() && reached(step - 1) && next(step - 1) == step;
  }
  std::set<std::size_t> rounds;

 private:
  enum class State : std::uint8_t { kNew, kOnTheWay, kDone };
  struct Visit {
    std::size_t step;
    int tried = 0;  // of the two ways on
  };

  void enter(std::size_t step) {
    seen_[step] = State::kOnTheWay;
    way_.push_back({step});
  }
  std::size_t next(std::size_t step) const {
    const code::Flow flow = code_.steps[step].instruction.flow;
    if (flow == code::Flow::kJump || flow == code::Flow::kReturn) return kNowhere;
    return step + 1 < code_.steps.size() ? step + 1 : kNowhere;
  }
  std::size_t jump(std::size_t step) const {
    const code::Instruction& i = code_.steps[step].instruction;
    const bool jumps = i.flow == code::Flow::kJump || i.flow == code::Flow::kBranch;
    return jumps && i.target ? code_.find(i.target->value) : kNowhere;
  }
  void advance() {
    const std::size_t step = way_.back().step;
    const int tried = way_.back().tried++;
    if (tried == 2) {
      seen_[step] = State::kDone;
      way_.pop_back();
      return;
    }
    const std::size_t to = tried == 0 ? next(step) : jump(step);
    if (to == kNowhere) return;
    if (seen_[to] == State::kNew) return enter(to);
    if (tried == 1 && seen_[to] == State::kOnTheWay) rounds.insert(step);
  }

  const FunctionCode& code_;
  std::vector<State> seen_;
  std::vector<Visit> way_;
};

// A loop that is entered at its condition has its jump back as the only way to its first step; of
// steps that only a computed jump leads to, what jumps back is taken for a loop.
void find_loops(FunctionCode& code) {
  Walk walk(code);
  code.rounds = std::move(walk.rounds);
  for (const auto& [target, step] : code.jumps) {
    const bool only = !walk.reached(step) || !walk.falls_into(code.find(target));
    if (only && target <= code.steps[step].address) code.rounds.insert(step);
  }
  for (const std::size_t step : code.rounds) {
    const std::uint64_t target = code.steps[step].instruction.target->value;
    std::uint64_t& farthest = code.loops[target];
    farthest = std::max(farthest, code.steps[step].address);
  }
}

}  // namespace

std::size_t FunctionCode::find(std::uint64_t address) const {
  const auto at = std::lower_bound(steps.begin(), steps.end(), address,
                                   [](const Step& s, std::uint64_t a) { return s.address < a; });
  if (at == steps.end() || at->address != address) return kNowhere;
  return static_cast<std::size_t>(at - steps.begin());
}

FunctionCode read_function(code::Bytes bytes, std::uint64_t start) {
  FunctionCode out;
  out.start = start;
  out.end = start + bytes.size();
  for (std::size_t at = 0; at < bytes.size();) {
    const code::Bytes rest = bytes.subspan(at);
    auto decoded = code::decode(rest, Address(start + at));
    if (!decoded) break;
    Step step{start + at, *decoded, {}};
    step.effect = code::effect_of(rest.first(decoded->length), *decoded);
    step.work = code::work_of(rest.first(decoded->length)).kind;
    const code::Flow flow = decoded->flow;
    if (decoded->target && (flow == code::Flow::kJump || flow == code::Flow::kBranch)) {
      out.jumps.emplace(decoded->target->value, out.steps.size());
    }
    out.steps.push_back(step);
    at += decoded->length;
  }
  find_loops(out);
  return out;
}

std::unique_ptr<CodeFile> CodeFile::open(const std::string& path) {
  auto image = code::ElfImage::open(path);
  // Instructions of other processors are not decoded: their bytes would mean something else.
  if (!image || image->machine() != EM_X86_64) return nullptr;
  return std::unique_ptr<CodeFile>(new CodeFile(std::move(*image)));
}

const FunctionCode* CodeFile::at(std::uint64_t address) {
  const std::size_t number = functions_.find(address);
  if (number >= functions_.size()) return nullptr;
  auto [found, fresh] = read_.try_emplace(number);
  if (fresh) {
    const code::Bytes bytes = functions_.bytes(number);
    if (bytes.size() <= kMostBytes)
      found->second =
          std::make_unique<FunctionCode>(read_function(bytes, functions_[number].start));
  }
  return found->second.get();
}

}  // namespace stallscope::sources
