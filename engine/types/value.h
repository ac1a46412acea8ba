// SPDX-License-Identifier: Apache-2.0
// What is known of a register's or a stack slot's contents while following a function's code.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "symbols/types.h"

namespace stallscope::types {

struct Value {
  enum class Kind : std::uint8_t {
    kAny,      // nothing has been seen to put something there: agrees with whatever comes
    kNothing,  // different things, or something of no interest
    kNull,     // zero: a pointer to anything
    kPointer,  // to elements of `type`, `offset` bytes into one of them
    kResult,   // what the call at `call` returned, plus `offset`
    kStack,    // the frame's canonical address plus `offset`
  };
  Kind kind = Kind::kAny;
  symbols::TypeId type = symbols::kNoType;
  std::int64_t offset = 0;
  std::uint64_t call = 0;

  bool operator==(const Value&) const = default;
  static Value nothing() { return {Kind::kNothing}; }
  static Value null() { return {Kind::kNull}; }
  static Value pointer(symbols::TypeId type, std::int64_t offset) {
    return {Kind::kPointer, type, offset};
  }
  static Value result(std::uint64_t call) { return {Kind::kResult, symbols::kNoType, 0, call}; }
  static Value stack(std::int64_t offset) { return {Kind::kStack, symbols::kNoType, offset}; }
};

// What holds when either of two ways was taken.
Value either(const Value& a, const Value& b);

struct State {
  std::array<Value, 16> registers;  // by hardware number
  struct Slot {
    std::int64_t offset;
    Value value;
    bool operator==(const Slot&) const = default;
  };
  std::vector<Slot> slots;  // eight bytes of stack each, by offset; at most kMaxSlots
  bool is_reached = false;

  bool operator==(const State&) const = default;
  // Takes in another way that leads here; whether that changed anything.
  bool join(const State& other);
  const Value* slot(std::int64_t offset) const;
  void set_slot(std::int64_t offset, const Value& value);
  void forget_slots_below(std::int64_t offset);
};

}  // namespace stallscope::types
