// SPDX-License-Identifier: Apache-2.0
#include "sources/waiting.h"

#include <algorithm>

namespace stallscope::sources {
namespace {

using code::Flow;
using code::kNoRegister;
using code::MemoryOperand;
using code::Move;
using code::RegisterNumber;

constexpr std::size_t kFarBack = 32;  // instructions that are searched for what was overwritten
constexpr RegisterNumber kStackPointer = 4;
constexpr std::size_t kNowhere = FunctionCode::kNowhere;

bool is_general(RegisterNumber r) { return r < 16; }

bool writes_register(const Step& step, RegisterNumber r) {
  return is_general(r) && (step.effect.written >> r & 1);
}

const MemoryOperand* accessed(const Step& step) {
  const MemoryOperand* best = nullptr;
  for (const MemoryOperand& m : step.instruction.memory()) {
    if (!m.read && !m.write) continue;
    // What is read is waited for; what is written goes on by itself. A hidden one is the stack.
    if (best == nullptr || (m.read && !best->read) || (best->hidden && !m.hidden)) best = &m;
  }
  return best;
}

// Takes cycles by itself, so that a program is found behind it without any memory.
bool takes_time(const Step& step) {
  using code::WorkKind;
  switch (step.work) {
    case WorkKind::kMultiply:
    case WorkKind::kDivide:
    case WorkKind::kFloatAdd:
    case WorkKind::kFloatMultiply:
    case WorkKind::kFloatDivide:
    case WorkKind::kSlow:
      return true;
    default:
      return false;
  }
}

// A comparison with memory and the branch behind it are one instruction to the processor.
bool may_fuse(const Step& step) {
  const std::string_view name = step.instruction.mnemonic;
  return (name == "cmp" || name == "test") && accessed(step) != nullptr;
}

// The step that was done last before the program stood at `at`.
std::size_t step_before(const FunctionCode& code, std::size_t at) {
  std::size_t before = at > 0 ? at - 1 : kNowhere;
  if (before != kNowhere) {
    const Flow flow = code.steps[before].instruction.flow;
    if (flow == Flow::kJump || flow == Flow::kReturn) before = kNowhere;
  }
  // Where a loop begins, it comes from its end more often than from before it. Elsewhere what
  // compilers put in front is done more often than what they put aside.
  const auto [first, last] = code.jumps.equal_range(code.steps[at].address);
  std::size_t jump = kNowhere;
  for (auto j = first; j != last; ++j)
    if (before == kNowhere || code.rounds.contains(j->second)) jump = j->second;
  if (jump != kNowhere) before = jump;
  if (before == kNowhere) return before;
  if (code.steps[before].instruction.flow == Flow::kBranch && before > 0 &&
      may_fuse(code.steps[before - 1]))
    return before - 1;
  return before;
}

// Whether step `at` makes what it needs itself in its next round: it is in a loop in which nothing
// else changes register `r`.
bool follows_itself(const FunctionCode& code, std::size_t at, RegisterNumber r) {
  const std::uint64_t address = code.steps[at].address;
  for (const auto& [start, end] : code.loops) {
    if (address < start || end < address) continue;
    const auto inside = [&](const Step& s) { return start <= s.address && s.address <= end; };
    const bool alone = std::none_of(code.steps.begin(), code.steps.end(), [&](const Step& s) {
      const bool calls = s.instruction.flow == Flow::kCall;
      return s.address != address && inside(s) && (calls || writes_register(s, r));
    });
    if (alone) return true;
  }
  return false;
}

// Whether a register is the same behind step `last` as behind step `first`.
bool keeps(const FunctionCode& code, std::size_t first, std::size_t last, RegisterNumber r) {
  for (std::size_t i = first + 1; i <= last; ++i)
    if (writes_register(code.steps[i], r)) return false;
  return true;
}

// What the steps behind `first` up to `last` added to a register, if they did nothing else to it.
std::optional<std::uint64_t> added_between(const FunctionCode& code, std::size_t first,
                                           std::size_t last, RegisterNumber r) {
  std::uint64_t added = 0;
  for (std::size_t i = first + 1; i <= last; ++i) {
    const code::Effect& e = code.steps[i].effect;
    if (!writes_register(code.steps[i], r)) continue;
    if (e.move != Move::kAdd || e.to != r) return std::nullopt;
    added += static_cast<std::uint64_t>(e.amount);
  }
  return added;
}

// A value as it was before a step, from what is there behind it.
struct Value {
  Recipe::Sum sum;
  std::uint8_t in_memory = 0;  // bytes, 0: none; the sum is where they were loaded from
  bool has_sign = false;       // fewer than eight
  std::uint64_t added = 0;     // to that
};

// The address of what step `defined` loads, or computes, by registers that are the same behind
// `step`, or have only been counted on.
std::optional<Recipe::Sum> from_address(const FunctionCode& code, std::size_t defined,
                                        std::size_t step, const MemoryOperand& m) {
  if (m.segment != code::SegmentBase::kZero) return std::nullopt;
  if (m.fixed) return Recipe::Sum{{}, m.fixed->value, m.base == code::kInstructionPointer};
  Recipe::Sum sum{{}, static_cast<std::uint64_t>(m.displacement), false};
  for (auto [r, scale] : {std::pair{m.base, std::uint8_t{1}}, {m.index, m.scale}}) {
    if (r == kNoRegister) continue;
    if (!is_general(r) || writes_register(code.steps[defined], r)) return std::nullopt;
    const auto added = added_between(code, defined, step, r);
    if (!added) return std::nullopt;
    sum.terms.push_back({r, scale});
    sum.constant -= *added * scale;
  }
  return sum;
}

// What the step that wrote a register last put there.
std::optional<Value> written_by(const FunctionCode& code, std::size_t defined, std::size_t step,
                                std::uint64_t added) {
  const code::Effect& e = code.steps[defined].effect;
  if (e.move == Move::kCopy && keeps(code, defined, step, e.from))
    return Value{{{{e.from, 1}}, added}};
  const bool loads = e.move == Move::kLoad || e.move == Move::kLoadLow || e.move == Move::kLoadInt;
  if (e.move != Move::kAddress && !loads) return std::nullopt;
  const auto sum = from_address(code, defined, step, e.memory);
  if (!sum) return std::nullopt;
  if (loads)
    return Value{*sum, static_cast<std::uint8_t>(e.memory.size), e.move == Move::kLoadInt, added};
  Value value{*sum};
  value.sum.constant += added;
  return value;
}

// What register `r`, which step `step` overwrites, held before it: searched backwards through
// straight code for copies of it, and for what it was made from.
std::optional<Value> overwritten(const FunctionCode& code, std::size_t step, RegisterNumber r) {
  if (code.jumps.contains(code.steps[step].address)) return std::nullopt;
  std::uint64_t added = 0;
  for (std::size_t i = step, back = 0; i-- > 0 && back < kFarBack; ++back) {
    const Step& s = code.steps[i];
    const Flow flow = s.instruction.flow;
    if (flow != Flow::kNext && flow != Flow::kBranch) return std::nullopt;
    const code::Effect& e = s.effect;
    if (e.move == Move::kCopy && e.from == r && e.to != r && keeps(code, i, step, e.to))
      return Value{{{{e.to, 1}}, added}};
    if (writes_register(s, r)) {
      if (e.move != Move::kAdd) return written_by(code, i, step, added);
      added += static_cast<std::uint64_t>(e.amount);
    }
    if (code.jumps.contains(s.address)) return std::nullopt;  // control may come in here
  }
  return std::nullopt;
}

// Behind the instruction the stack pointer has moved on.
void on_the_stack(const Step& step, Recipe& out) {
  out.how = How::kExact;
  out.sum.terms.push_back({kStackPointer, 1});
  if (step.effect.move == Move::kPop) out.sum.constant = static_cast<std::uint64_t>(-8);
}

// Adds `r * scale`; false when the value is lost.
bool add_term(const FunctionCode& code, std::size_t at, bool behind, RegisterNumber r,
              std::uint8_t scale, Recipe& out) {
  if (r == kNoRegister) return true;
  if (!is_general(r)) return false;
  if (!behind || !writes_register(code.steps[at], r)) {
    out.sum.terms.push_back({r, scale});
    return true;
  }
  const auto value = overwritten(code, at, r);
  if (!value || (value->in_memory && out.pointer_scale != 0)) return false;
  if (value->in_memory) {
    out.pointer = value->sum;
    out.pointer_scale = scale;
    out.pointer_bytes = value->in_memory;
    out.pointer_signed = value->has_sign;
    out.sum.constant += value->added * scale;
    out.how = How::kRead;
    return true;
  }
  if (value->sum.fixed) return false;
  for (const Recipe::Term& term : value->sum.terms)
    out.sum.terms.push_back({term.source, static_cast<std::uint8_t>(term.scale * scale)});
  out.sum.constant += value->sum.constant * scale;
  if (out.how != How::kRead) out.how = How::kKept;
  return true;
}

// What is multiplied is an index, so the other register is where its array begins.
void find_array(const Step& step, bool behind, const MemoryOperand& m, Recipe& out) {
  if (m.segment != code::SegmentBase::kZero || m.fixed || m.scale < 2) return;
  if (m.index == kNoRegister || !is_general(m.base)) return;
  if (behind && writes_register(step, m.base)) return;
  out.in_array = true;
  out.array = {{{m.base, 1}}, static_cast<std::uint64_t>(m.displacement), false};
}

void find_address(const FunctionCode& code, std::size_t at, bool behind, const MemoryOperand& m,
                  Recipe& out) {
  const Step& step = code.steps[at];
  if (m.segment != code::SegmentBase::kZero) return;
  if (m.fixed) {
    out.how = How::kExact;
    out.sum.constant = m.fixed->value;
    out.sum.fixed = m.base == code::kInstructionPointer;
    return;
  }
  if (m.hidden && m.base == kStackPointer && behind) return on_the_stack(step, out);
  out.how = How::kExact;
  out.sum.constant = static_cast<std::uint64_t>(m.displacement);
  if (add_term(code, at, behind, m.base, 1, out) &&
      add_term(code, at, behind, m.index, m.scale, out))
    return;
  out.sum = {{}, static_cast<std::uint64_t>(m.displacement), false};
  out.pointer_scale = 0;
  out.how = How::kNone;
  for (auto [r, scale] : {std::pair{m.base, std::uint8_t{1}}, {m.index, m.scale}}) {
    if (r == kNoRegister) continue;
    if (!is_general(r) || (writes_register(step, r) && !follows_itself(code, at, r))) return;
    out.sum.terms.push_back({r, scale});
  }
  out.how = How::kNext;
}

}  // namespace

Recipe recipe_at(const FunctionCode& code, std::uint64_t ip, unsigned skid) {
  Recipe out;
  const std::size_t here = code.find(ip);
  if (here == kNowhere) return out;
  // A repeated instruction is interrupted in its midst.
  const bool on_it = skid == 0 || code.steps[here].instruction.repeats;
  const std::size_t at = on_it ? here : step_before(code, here);
  if (at == kNowhere) return out;
  const Step& step = code.steps[at];
  out.known = true;
  out.instruction = step.address;
  out.computes = takes_time(step);
  out.locks = step.instruction.locks;
  const MemoryOperand* m = accessed(step);
  if (m == nullptr) return out;
  out.reads = m->read;
  out.writes = m->write;
  out.size = m->size;
  find_address(code, at, !on_it, *m, out);
  find_array(step, !on_it, *m, out);
  return out;
}

double waits_at(const FunctionCode& code, std::uint64_t ip, unsigned skid,
                const CountSamples& samples) {
  constexpr std::size_t kAround = 12;
  constexpr double kGroup = 3;
  constexpr double kAtomic = 30;  // waits until all in front of it is done, and written
  const std::size_t here = code.find(ip);
  if (here == kNowhere) return 0;
  double others = 0, places = 0, slowest = 0;
  const std::size_t first = here > kAround ? here - kAround : 0;
  const std::size_t last = std::min(code.steps.size(), here + kAround + 1);
  for (std::size_t i = first; i < last; ++i) {
    const std::uint64_t address = code.steps[i].address;
    const Recipe behind = recipe_at(code, address, skid);
    if (i == here || behind.accesses()) continue;
    const auto count = static_cast<double>(samples(address));
    if (behind.computes) {
      slowest = std::max(slowest, count);
    } else {
      others += count;
      places += 1;
    }
  }
  const Recipe here_behind = recipe_at(code, ip, skid);
  const bool computes = here_behind.computes;
  if (places == 0 && !(computes && slowest > 0)) return 0.5;
  double computing = places > 0 ? (here_behind.locks ? kAtomic : kGroup) * others / places : 0;
  if (computes) computing = std::max(computing, slowest);
  return std::max(0.0, 1 - computing / static_cast<double>(samples(ip)));
}

namespace {

std::uint64_t value_of(const Recipe::Sum& sum, const UserRegisters& registers, std::uint64_t bias) {
  std::uint64_t value = sum.constant + (sum.fixed ? bias : 0);
  for (const Recipe::Term& term : sum.terms) value += registers[term.source] * term.scale;
  return value;
}

bool is_on_stack(std::uint64_t address, const UserRegisters& registers, std::uint64_t above) {
  constexpr std::uint64_t kRedZone = 128;  // bytes below the stack pointer that a function may use
  return address + kRedZone - registers[kStackPointer] < kRedZone + above;
}

}  // namespace

bool is_on_top_of_stack(std::uint64_t address, const UserRegisters& registers) {
  constexpr std::uint64_t kPage = 4096;
  return is_on_stack(address, registers, kPage);
}

std::optional<std::uint64_t> array_of(const Recipe& recipe, const UserRegisters& registers) {
  if (!recipe.in_array) return std::nullopt;
  return value_of(recipe.array, registers, 0);
}

std::optional<std::uint64_t> address_of(const Recipe& recipe, const UserRegisters& registers,
                                        std::uint64_t bias, const ReadMemory& read) {
  if (recipe.how == How::kNone) return std::nullopt;
  const std::uint64_t address = value_of(recipe.sum, registers, bias);
  if (recipe.pointer_scale == 0) return address;
  const std::uint64_t from = value_of(recipe.pointer, registers, bias);
  constexpr std::uint64_t kFrames = 1 << 20;
  if (recipe.pointer_bytes < 8 && is_on_stack(from, registers, kFrames)) return std::nullopt;
  const auto word = read(from);
  if (!word) return std::nullopt;
  const unsigned above = 64 - 8 * recipe.pointer_bytes;
  const std::uint64_t low = *word << above;
  const std::uint64_t pointer =
      recipe.pointer_signed ? static_cast<std::uint64_t>(static_cast<std::int64_t>(low) >> above)
                            : low >> above;
  return address + pointer * recipe.pointer_scale;
}

}  // namespace stallscope::sources
