// SPDX-License-Identifier: Apache-2.0
#include "code/effect.h"

#include <Zydis/Zydis.h>

namespace stallscope::code {
namespace {

struct Decoded {
  ZydisDecodedInstruction instruction;
  ZydisDecodedOperand operands[ZYDIS_MAX_OPERAND_COUNT];
};

const ZydisDecoder& decoder() {
  static const ZydisDecoder shared = [] {
    ZydisDecoder d;
    ZydisDecoderInit(&d, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64);
    return d;
  }();
  return shared;
}

// The general register that holds this one, however narrow.
RegisterNumber holder_of(ZydisRegister r) {
  const ZydisRegister whole = ZydisRegisterGetLargestEnclosing(ZYDIS_MACHINE_MODE_LONG_64, r);
  if (ZydisRegisterGetClass(whole) != ZYDIS_REGCLASS_GPR64) return kNoRegister;
  return static_cast<RegisterNumber>(ZydisRegisterGetId(whole));
}

bool is_word_register(const ZydisDecodedOperand& o) {
  return o.type == ZYDIS_OPERAND_TYPE_REGISTER &&
         ZydisRegisterGetClass(o.reg.value) == ZYDIS_REGCLASS_GPR64;
}

RegisterNumber word_register(const ZydisDecodedOperand& o) {
  return is_word_register(o) ? holder_of(o.reg.value) : kNoRegister;
}

const MemoryOperand* memory_of(const Instruction& instruction, bool hidden) {
  for (const MemoryOperand& m : instruction.memory())
    if (m.hidden == hidden) return &m;
  return nullptr;
}

// Of fewer than eight bytes, into a whole register.
void narrow_of(const Decoded& d, const Instruction& instruction, Move move, Effect& out) {
  const ZydisDecodedOperand& first = d.operands[0];
  const MemoryOperand* memory = memory_of(instruction, false);
  const unsigned least = move == Move::kLoadInt ? 64 : 32;  // half a register clears the rest
  if (first.type != ZYDIS_OPERAND_TYPE_REGISTER || first.size < least || memory == nullptr ||
      !memory->read || memory->size >= 8)
    return;
  out.to = holder_of(first.reg.value);
  if (out.to == kNoRegister) return;
  out.move = move;
  out.memory = *memory;
}

void move_of(const Decoded& d, const Instruction& instruction, Effect& out) {
  const ZydisDecodedOperand& first = d.operands[0];
  const ZydisDecodedOperand& second = d.operands[1];
  const MemoryOperand* memory = memory_of(instruction, false);
  out.to = word_register(first);
  out.from = word_register(second);
  if (first.type == ZYDIS_OPERAND_TYPE_REGISTER && second.type == ZYDIS_OPERAND_TYPE_IMMEDIATE &&
      second.imm.value.u == 0 && first.size >= 32) {
    out.to = holder_of(first.reg.value);
    if (out.to != kNoRegister) out.move = Move::kZero;
  } else if (out.to != kNoRegister && out.from != kNoRegister) {
    out.move = Move::kCopy;
  } else if (out.to != kNoRegister && memory != nullptr && memory->size == 8) {
    out.move = Move::kLoad;
    out.memory = *memory;
  } else if (out.from != kNoRegister && memory != nullptr && memory->size == 8) {
    out.move = Move::kStore;
    out.memory = *memory;
  } else {
    narrow_of(d, instruction, Move::kLoadLow, out);
  }
}

void sum_of(const Decoded& d, bool subtracts, Effect& out) {
  const ZydisDecodedOperand& second = d.operands[1];
  out.to = word_register(d.operands[0]);
  if (out.to == kNoRegister) return;
  if (second.type == ZYDIS_OPERAND_TYPE_IMMEDIATE) {
    out.move = Move::kAdd;
    out.amount = subtracts ? -second.imm.value.s : second.imm.value.s;
  } else if (!subtracts && is_word_register(second)) {
    out.move = Move::kSum;
    out.from = holder_of(second.reg.value);
  }
}

void step_of(const Decoded& d, std::int64_t amount, Effect& out) {
  out.to = word_register(d.operands[0]);
  if (out.to == kNoRegister) return;
  out.move = Move::kAdd;
  out.amount = amount;
}

void by_mnemonic(const Decoded& d, const Instruction& instruction, Effect& out) {
  const ZydisDecodedOperand& first = d.operands[0];
  const ZydisDecodedOperand& second = d.operands[1];
  switch (d.instruction.mnemonic) {
    case ZYDIS_MNEMONIC_MOV:
      return move_of(d, instruction, out);
    case ZYDIS_MNEMONIC_MOVZX:
      return narrow_of(d, instruction, Move::kLoadLow, out);
    case ZYDIS_MNEMONIC_MOVSX:
    case ZYDIS_MNEMONIC_MOVSXD:
      return narrow_of(d, instruction, Move::kLoadInt, out);
    case ZYDIS_MNEMONIC_LEA:
      out.to = word_register(first);
      if (const MemoryOperand* m = memory_of(instruction, false);
          m != nullptr && out.to != kNoRegister) {
        out.move = Move::kAddress;
        out.memory = *m;
      }
      return;
    case ZYDIS_MNEMONIC_ADD:
      return sum_of(d, false, out);
    case ZYDIS_MNEMONIC_SUB:
      return sum_of(d, true, out);
    case ZYDIS_MNEMONIC_INC:
      return step_of(d, 1, out);
    case ZYDIS_MNEMONIC_DEC:
      return step_of(d, -1, out);
    case ZYDIS_MNEMONIC_XOR:
      if (first.type == ZYDIS_OPERAND_TYPE_REGISTER && second.type == ZYDIS_OPERAND_TYPE_REGISTER &&
          first.reg.value == second.reg.value && first.size >= 32) {
        out.to = holder_of(first.reg.value);
        if (out.to != kNoRegister) out.move = Move::kZero;
      }
      return;
    case ZYDIS_MNEMONIC_PUSH:
      out.move = Move::kPush;
      out.from = word_register(first);
      return;
    case ZYDIS_MNEMONIC_POP:
      out.move = Move::kPop;
      out.to = word_register(first);
      return;
    default:
      break;
  }
  if (d.instruction.meta.category != ZYDIS_CATEGORY_CMOV) return;
  out.to = word_register(first);
  out.from = word_register(second);
  if (out.to != kNoRegister && out.from != kNoRegister) out.move = Move::kMaybe;
}

}  // namespace

Effect effect_of(std::span<const std::uint8_t> bytes, const Instruction& instruction) {
  Effect out;
  Decoded d;
  if (!ZYAN_SUCCESS(ZydisDecoderDecodeFull(&decoder(), bytes.data(), bytes.size(), &d.instruction,
                                           d.operands)))
    return out;
  for (std::uint8_t i = 0; i < d.instruction.operand_count; ++i) {
    const ZydisDecodedOperand& o = d.operands[i];
    if (o.type != ZYDIS_OPERAND_TYPE_REGISTER) continue;
    if (!(o.actions & ZYDIS_OPERAND_ACTION_MASK_WRITE)) continue;
    if (const RegisterNumber r = holder_of(o.reg.value); r != kNoRegister)
      out.written |= static_cast<std::uint16_t>(1u << r);
  }
  if (d.instruction.operand_count > 0) by_mnemonic(d, instruction, out);
  return out;
}

}  // namespace stallscope::code
