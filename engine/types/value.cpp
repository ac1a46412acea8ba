// SPDX-License-Identifier: Apache-2.0
#include "types/value.h"

#include <algorithm>

namespace stallscope::types {
namespace {

constexpr std::size_t kMaxSlots = 64;

bool lies_before(const State::Slot& slot, std::int64_t offset) { return slot.offset < offset; }

}  // namespace

Value either(const Value& a, const Value& b) {
  using Kind = Value::Kind;
  if (a == b || b.kind == Kind::kAny) return a;
  if (a.kind == Kind::kAny) return b;
  const bool a_points = a.kind == Kind::kPointer || a.kind == Kind::kResult;
  const bool b_points = b.kind == Kind::kPointer || b.kind == Kind::kResult;
  if (a.kind == Kind::kNull && b_points) return b;
  if (b.kind == Kind::kNull && a_points) return a;
  // Somewhere in elements of one type: their start is as good a guess as any.
  if (a.kind == Kind::kPointer && b.kind == Kind::kPointer && a.type == b.type)
    return Value::pointer(a.type, 0);
  if (a.kind == Kind::kResult && b.kind == Kind::kResult && a.call == b.call)
    return Value::result(a.call);
  return Value::nothing();
}

bool State::join(const State& other) {
  if (!is_reached) {
    *this = other;
    is_reached = true;
    return true;
  }
  const State before = *this;
  for (std::size_t i = 0; i < registers.size(); ++i)
    registers[i] = either(registers[i], other.registers[i]);
  std::vector<Slot> common;
  for (const Slot& slot : slots) {
    const Value* there = other.slot(slot.offset);
    if (there == nullptr) continue;
    const Value value = either(slot.value, *there);
    if (value.kind != Value::Kind::kNothing) common.push_back({slot.offset, value});
  }
  slots = std::move(common);
  return !(*this == before);
}

const Value* State::slot(std::int64_t offset) const {
  auto at = std::lower_bound(slots.begin(), slots.end(), offset, lies_before);
  return at != slots.end() && at->offset == offset ? &at->value : nullptr;
}

void State::set_slot(std::int64_t offset, const Value& value) {
  auto at = std::lower_bound(slots.begin(), slots.end(), offset, lies_before);
  const bool is_there = at != slots.end() && at->offset == offset;
  if (value.kind == Value::Kind::kNothing || value.kind == Value::Kind::kAny) {
    if (is_there) slots.erase(at);
  } else if (is_there) {
    at->value = value;
  } else if (slots.size() < kMaxSlots) {
    slots.insert(at, {offset, value});
  }
}

void State::forget_slots_below(std::int64_t offset) {
  auto at = std::lower_bound(slots.begin(), slots.end(), offset, lies_before);
  slots.erase(slots.begin(), at);
}

}  // namespace stallscope::types
