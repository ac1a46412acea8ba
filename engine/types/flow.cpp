// SPDX-License-Identifier: Apache-2.0
#include "types/flow.h"

#include <algorithm>
#include <deque>
#include <unordered_map>

#include "types/body.h"
#include "types/variables.h"

namespace stallscope::types {
namespace {

using code::MemoryOperand;
using code::Move;
using code::RegisterNumber;
using symbols::kNoType;
using symbols::Local;
using symbols::TypeId;
using symbols::TypeKind;
using Kind = Value::Kind;

constexpr RegisterNumber kRax = 0;
constexpr RegisterNumber kRsp = 4;
constexpr RegisterNumber kRbp = 5;
constexpr RegisterNumber kCallerSaved[] = {0, 1, 2, 6, 7, 8, 9, 10, 11};
constexpr std::uint32_t kMostVisits = 16;  // of a block; loops settle in two or three

bool points(const Value& value) {
  return value.kind == Kind::kPointer || value.kind == Kind::kResult;
}

class Follower {
 public:
  Follower(symbols::Symbols& symbols, const symbols::Function& function, Body body)
      : symbols_(symbols),
        types_(*symbols.types()),
        function_(function),
        variables_(function, types_),
        body_(std::move(body)) {}

  Followed run() {
    settle();
    is_recording_ = true;
    for (std::uint32_t b = 0; b < body_.blocks.size(); ++b) {
      State state = entry_[b].is_reached ? entry_[b] : nowhere();
      pass(b, state);
    }
    tidy();
    return std::move(out_);
  }

 private:
  static State nowhere() {
    State state;
    state.registers.fill(Value::nothing());
    return state;
  }
  void settle();
  void pass(std::uint32_t block, State& state);
  void take_variables(std::uint64_t address, State& state);
  void note_accesses(const Step& step, const State& state);
  void apply(const Step& step, State& state);
  void apply_other(const Step& step, State& state);
  void apply_call(const Step& step, State& state);
  struct Callee {
    TypeId returns = kNoType;
    std::array<TypeId, 16> takes{};  // by register
  };
  const Callee& callee(std::uint64_t address);
  void push(const Value& value, State& state);
  Value pop(State& state);

  Value moved(Value value, std::int64_t by);
  Value place_of(const MemoryOperand& memory, const State& state);
  Value variable_place(std::uint64_t address);
  TypeId type_at(const MemoryOperand& memory, const Value& place, std::uint64_t address);
  Value load(const MemoryOperand& memory, const State& state, std::uint64_t address);
  void store(const MemoryOperand& memory, const Value& value, State& state, std::uint64_t address);
  void assign(const Value& value, TypeId pointer);
  void tidy();

  symbols::Symbols& symbols_;
  symbols::TypeTable& types_;
  const symbols::Function& function_;
  Variables variables_;
  Body body_;
  std::vector<State> entry_;                           // by block
  std::unordered_map<std::uint64_t, Callee> callees_;  // by address
  bool is_recording_ = false;
  Followed out_;
};

void Follower::settle() {
  entry_.resize(body_.blocks.size());
  std::vector<std::uint32_t> visits(body_.blocks.size());
  std::vector<std::uint8_t> waits(body_.blocks.size());
  State start = nowhere();
  start.registers[kRsp] = Value::stack(-8);  // the return address lies below the frame's address
  entry_[body_.entry].join(start);
  std::deque<std::uint32_t> work{body_.entry};
  while (!work.empty()) {
    const std::uint32_t b = work.front();
    work.pop_front();
    waits[b] = 0;
    if (++visits[b] > kMostVisits) continue;
    State state = entry_[b];
    pass(b, state);
    for (std::uint32_t next : body_.blocks[b].next) {
      if (!entry_[next].join(state) || waits[next]) continue;
      waits[next] = 1;
      work.push_back(next);
    }
  }
}

void Follower::pass(std::uint32_t number, State& state) {
  const Block& block = body_.blocks[number];
  for (std::uint32_t i = block.first; i < block.first + block.count; ++i) {
    const Step& step = body_.steps[i];
    take_variables(step.address, state);
    if (is_recording_) note_accesses(step, state);
    apply(step, state);
  }
  out_.steps += block.count;
}

void Follower::take_variables(std::uint64_t address, State& state) {
  for (RegisterNumber r = 0; r < state.registers.size(); ++r) {
    const Local* local = variables_.in_register(r, address);
    if (local == nullptr || r == kRsp) continue;
    if (local->offset == 0) assign(state.registers[r], local->type);
    state.registers[r] = moved(Value::pointer(types_.get(local->type).target, 0), -local->offset);
  }
}

void Follower::note_accesses(const Step& step, const State& state) {
  for (const MemoryOperand& m : step.instruction.memory()) {
    if (!m.read && !m.write) continue;
    const Value at = place_of(m, state);
    if (points(at)) out_.accesses.push_back({step.address, m.read, m.write, m.size, at});
  }
}

// Pointers stay within an element, so that walking an array settles.
Value Follower::moved(Value value, std::int64_t by) {
  if (by == 0 || value.kind == Kind::kAny) return value;
  if (!points(value) && value.kind != Kind::kStack) return Value::nothing();
  if (__builtin_add_overflow(value.offset, by, &value.offset)) return Value::nothing();
  const auto size =
      static_cast<std::int64_t>(std::min<std::uint64_t>(types_.get(value.type).size, INT64_MAX));
  if (value.kind == Kind::kPointer && size > 0) value.offset = (value.offset % size + size) % size;
  return value;
}

// An index moves over whole elements as far as can be known, or over those of a member.
Value Follower::place_of(const MemoryOperand& m, const State& state) {
  if (m.segment != code::SegmentBase::kZero) return Value::nothing();
  if (m.fixed) return variable_place(m.fixed->value);
  Value base = m.base < 16 ? state.registers[m.base] : Value::nothing();
  const Value index = m.index < 16 ? state.registers[m.index] : Value::nothing();
  if (base.kind == Kind::kStack)
    return m.index == code::kNoRegister ? moved(base, m.displacement) : Value::nothing();
  if (points(base)) return moved(base, m.displacement);
  if (points(index) && m.scale <= 1) return moved(index, m.displacement);
  // The table of a program at a fixed address: its address is the displacement.
  if (m.base == code::kNoRegister || m.index == code::kNoRegister)
    return variable_place(static_cast<std::uint64_t>(m.displacement));
  return Value::nothing();
}

Value Follower::variable_place(std::uint64_t address) {
  const symbols::Variable* variable = symbols_.variable_at(address);
  if (variable == nullptr || variable->type_id == kNoType) return Value::nothing();
  return moved(Value::pointer(variable->type_id, 0),
               static_cast<std::int64_t>(address - variable->address));
}

TypeId Follower::type_at(const MemoryOperand& m, const Value& place, std::uint64_t address) {
  if (place.kind == Kind::kPointer)
    return types_.field(place.type, static_cast<std::uint64_t>(place.offset)).type;
  const Local* local = nullptr;
  std::int64_t offset = 0;
  if (place.kind == Kind::kStack) {
    local = variables_.in_frame(place.offset, address);
    offset = place.offset;
  }
  if (local == nullptr && m.base < 16 && m.index == code::kNoRegister) {
    local = variables_.in_memory(m.base, m.displacement, address);
    offset = m.displacement;
  }
  if (local == nullptr) return kNoType;
  return types_.field(local->type, static_cast<std::uint64_t>(offset - local->offset)).type;
}

Value Follower::load(const MemoryOperand& m, const State& state, std::uint64_t address) {
  const Value place = place_of(m, state);
  const symbols::Type& type = types_.get(type_at(m, place, address));
  if (type.kind == TypeKind::kPointer && type.target != kNoType)
    return Value::pointer(type.target, 0);
  const Value* slot = place.kind == Kind::kStack ? state.slot(place.offset) : nullptr;
  return slot != nullptr ? *slot : Value::nothing();
}

void Follower::store(const MemoryOperand& m, const Value& value, State& state,
                     std::uint64_t address) {
  const Value place = place_of(m, state);
  assign(value, type_at(m, place, address));
  if (place.kind == Kind::kStack) state.set_slot(place.offset, value);
}

void Follower::assign(const Value& value, TypeId pointer) {
  if (!is_recording_ || value.kind != Kind::kResult || value.offset != 0) return;
  const symbols::Type& type = types_.get(pointer);
  if (type.kind != TypeKind::kPointer || type.target == kNoType) return;
  out_.assignments.push_back({value.call, type.target});
}

void Follower::push(const Value& value, State& state) {
  Value& top = state.registers[kRsp];
  if (top.kind != Kind::kStack) return;
  top.offset -= 8;
  state.set_slot(top.offset, value);
}

Value Follower::pop(State& state) {
  Value& top = state.registers[kRsp];
  if (top.kind != Kind::kStack) return Value::nothing();
  const Value* slot = state.slot(top.offset);
  const Value value = slot != nullptr ? *slot : Value::nothing();
  top.offset += 8;
  state.forget_slots_below(top.offset);
  return value;
}

// Where it expects its parameters is where its own debug information says that they are at first.
const Follower::Callee& Follower::callee(std::uint64_t address) {
  auto [known, is_new] = callees_.try_emplace(address);
  Callee& found = known->second;
  if (!is_new) return found;
  auto function = symbols_.function_at(address);
  if (!function || function->ranges.empty() || function->ranges.front().low != address)
    return found;
  found.returns = function->returns;
  const Variables variables(*function, types_);
  for (RegisterNumber r : kCallerSaved)
    if (const Local* local = variables.in_register(r, address)) found.takes[r] = local->type;
  return found;
}

void Follower::apply_call(const Step& step, State& state) {
  Callee called;
  if (step.instruction.target) called = callee(step.instruction.target->value);
  for (RegisterNumber r : kCallerSaved) assign(state.registers[r], called.takes[r]);
  // What a call leaves in these no compiler reads again, so they agree with anything: the code
  // behind a call that never returns is reached from elsewhere.
  for (RegisterNumber r : kCallerSaved) state.registers[r] = Value{};
  const std::uint64_t behind = step.address + step.instruction.length;
  const symbols::Type& type = types_.get(called.returns);
  const bool is_known = type.kind == TypeKind::kPointer && type.target != kNoType;
  state.registers[kRax] = is_known ? Value::pointer(type.target, 0) : Value::result(behind);
  if (is_known && is_recording_) out_.assignments.push_back({behind, type.target});
}

void Follower::apply_other(const Step& step, State& state) {
  if (step.instruction.mnemonic == "leave") {
    state.registers[kRsp] = state.registers[kRbp];
    state.registers[kRbp] = pop(state);
    return;
  }
  for (RegisterNumber r = 0; r < state.registers.size(); ++r)
    if (step.effect.written >> r & 1) state.registers[r] = Value::nothing();
}

void Follower::apply(const Step& step, State& state) {
  if (step.instruction.flow == code::Flow::kCall) return apply_call(step, state);
  if (step.instruction.flow == code::Flow::kReturn)
    assign(state.registers[kRax], function_.returns);
  const code::Effect& e = step.effect;
  auto& registers = state.registers;
  switch (e.move) {
    case Move::kCopy:
      registers[e.to] = registers[e.from];
      return;
    case Move::kMaybe:
      registers[e.to] = either(registers[e.to], registers[e.from]);
      return;
    case Move::kLoad:
      registers[e.to] = load(e.memory, state, step.address);
      return;
    case Move::kStore:
      return store(e.memory, registers[e.from], state, step.address);
    case Move::kAddress:
      registers[e.to] = place_of(e.memory, state);
      return;
    case Move::kAdd:
      registers[e.to] = moved(registers[e.to], e.amount);
      return;
    case Move::kSum:
      if (!points(registers[e.to])) registers[e.to] = registers[e.from];
      if (!points(registers[e.to])) registers[e.to] = Value::nothing();
      return;
    case Move::kZero:
      registers[e.to] = Value::null();
      return;
    case Move::kPush:
      return push(e.from < 16 ? registers[e.from] : Value::nothing(), state);
    case Move::kPop: {
      const Value value = pop(state);
      if (e.to < 16) registers[e.to] = value;
      return;
    }
    case Move::kLoadLow:
    case Move::kLoadInt:
    case Move::kOther:
      return apply_other(step, state);
  }
}

void Follower::tidy() {
  std::stable_sort(out_.accesses.begin(), out_.accesses.end(),
                   [](const Access& a, const Access& b) { return a.address < b.address; });
  auto order = [](const Assignment& a, const Assignment& b) {
    return a.call != b.call ? a.call < b.call : a.type < b.type;
  };
  auto same = [](const Assignment& a, const Assignment& b) {
    return a.call == b.call && a.type == b.type;
  };
  auto& all = out_.assignments;
  std::sort(all.begin(), all.end(), order);
  all.erase(std::unique(all.begin(), all.end(), same), all.end());
}

}  // namespace

Followed follow(symbols::Symbols& symbols, const symbols::Function& function, std::uint64_t most) {
  if (symbols.types() == nullptr) return {};
  Body body = read_body(symbols, function, most);
  if (body.steps.empty()) return {};
  Followed found = Follower(symbols, function, std::move(body)).run();
  found.declared = function.declared;
  return found;
}

}  // namespace stallscope::types
