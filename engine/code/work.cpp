// SPDX-License-Identifier: Apache-2.0
#include "code/work.h"

#include <Zydis/Zydis.h>

#include <string_view>

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

CoreRegister register_of(ZydisRegister r) {
  if (r == ZYDIS_REGISTER_NONE) return kNoCoreRegister;
  const ZydisRegister whole = ZydisRegisterGetLargestEnclosing(ZYDIS_MACHINE_MODE_LONG_64, r);
  const ZydisRegister at = whole == ZYDIS_REGISTER_NONE ? r : whole;
  const auto id = static_cast<CoreRegister>(ZydisRegisterGetId(at));
  switch (ZydisRegisterGetClass(at)) {
    case ZYDIS_REGCLASS_GPR64:
      return static_cast<CoreRegister>(kFirstGeneral + id);
    case ZYDIS_REGCLASS_XMM:
    case ZYDIS_REGCLASS_YMM:
    case ZYDIS_REGCLASS_ZMM:
      return static_cast<CoreRegister>(kFirstVector + id);
    case ZYDIS_REGCLASS_X87:
    case ZYDIS_REGCLASS_MMX:
      return kX87;
    case ZYDIS_REGCLASS_MASK:
      return static_cast<CoreRegister>(kFirstMask + id);
    default:
      return kNoCoreRegister;
  }
}

template <unsigned N>
void add(CoreRegister (&list)[N], CoreRegister r) {
  if (r == kNoCoreRegister) return;
  for (CoreRegister& one : list) {
    if (one == r) return;
    if (one == kNoCoreRegister) {
      one = r;
      return;
    }
  }
}

bool has_vector(CoreRegister r) { return r >= kFirstVector && r < kFlags; }

// Divisions and roots are slow, products and what is fused with them are in between.
WorkKind float_kind(std::string_view name) {
  const auto has = [&](std::string_view part) { return name.find(part) != std::string_view::npos; };
  if (has("div") || has("sqrt")) return WorkKind::kFloatDivide;
  if (has("mul") || has("fmadd") || has("fmsub") || has("fnm") || has("dp"))
    return WorkKind::kFloatMultiply;
  if (has("add") || has("sub") || has("cvt") || has("cmp") || has("comi") || has("max") ||
      has("min") || has("round") || has("hadd"))
    return WorkKind::kFloatAdd;
  return WorkKind::kVector;
}

WorkKind vector_kind(const Decoded& d) {
  const std::string_view name = ZydisMnemonicGetString(d.instruction.mnemonic);
  const std::string_view plain = name.starts_with("v") ? name.substr(1) : name;
  if (plain.starts_with("mov")) return WorkKind::kVector;
  if (plain.starts_with("pmul") || plain.starts_with("pmadd")) return WorkKind::kFloatMultiply;
  if (plain.starts_with("p")) return WorkKind::kVector;
  return float_kind(plain);
}

bool is_move(ZydisMnemonic m) {
  switch (m) {
    case ZYDIS_MNEMONIC_MOV:
    case ZYDIS_MNEMONIC_MOVZX:
    case ZYDIS_MNEMONIC_MOVSX:
    case ZYDIS_MNEMONIC_MOVSXD:
    case ZYDIS_MNEMONIC_PUSH:
    case ZYDIS_MNEMONIC_POP:
    case ZYDIS_MNEMONIC_MOVBE:
      return true;
    default:
      return false;
  }
}

bool is_vector_move(const Decoded& d) {
  std::string_view name = ZydisMnemonicGetString(d.instruction.mnemonic);
  if (name.starts_with("v")) name.remove_prefix(1);
  return name.starts_with("mov") || name.starts_with("lddqu") || name.starts_with("broadcast");
}

WorkKind integer_kind(const Decoded& d, Work& work) {
  switch (d.instruction.mnemonic) {
    case ZYDIS_MNEMONIC_MUL:
    case ZYDIS_MNEMONIC_IMUL:
    case ZYDIS_MNEMONIC_MULX:
      return WorkKind::kMultiply;
    case ZYDIS_MNEMONIC_DIV:
    case ZYDIS_MNEMONIC_IDIV:
      work.bits = static_cast<std::uint8_t>(d.operands[0].size);
      return WorkKind::kDivide;
    case ZYDIS_MNEMONIC_CPUID:
    case ZYDIS_MNEMONIC_XGETBV:
    case ZYDIS_MNEMONIC_RDTSC:
    case ZYDIS_MNEMONIC_MFENCE:
    case ZYDIS_MNEMONIC_SYSCALL:
    case ZYDIS_MNEMONIC_FXSAVE:
    case ZYDIS_MNEMONIC_FXRSTOR:
    case ZYDIS_MNEMONIC_XSAVE:
    case ZYDIS_MNEMONIC_XSAVEC:
    case ZYDIS_MNEMONIC_XRSTOR:
      return WorkKind::kSlow;
    default:
      return is_move(d.instruction.mnemonic) ? WorkKind::kMove : WorkKind::kInteger;
  }
}

bool is_nothing(const ZydisDecodedInstruction& i) {
  switch (i.meta.category) {
    case ZYDIS_CATEGORY_NOP:
    case ZYDIS_CATEGORY_WIDENOP:
    case ZYDIS_CATEGORY_PREFETCH:
    case ZYDIS_CATEGORY_CET:
      return true;
    default:
      return false;
  }
}

WorkFlow flow_of(const Decoded& d) {
  const bool direct = d.operands[0].type == ZYDIS_OPERAND_TYPE_IMMEDIATE;
  switch (d.instruction.meta.category) {
    case ZYDIS_CATEGORY_COND_BR:
      return WorkFlow::kConditional;
    case ZYDIS_CATEGORY_UNCOND_BR:
      return direct ? WorkFlow::kJump : WorkFlow::kIndirectJump;
    case ZYDIS_CATEGORY_CALL:
      return direct ? WorkFlow::kCall : WorkFlow::kIndirectCall;
    case ZYDIS_CATEGORY_RET:
      return WorkFlow::kReturn;
    default:
      return WorkFlow::kNext;
  }
}

void add_addresses(const ZydisDecodedOperand& o, Work& work) {
  add(work.addresses, register_of(o.mem.base));
  add(work.addresses, register_of(o.mem.index));
}

void add_operand(const Decoded& d, const ZydisDecodedOperand& o, Work& work) {
  if (o.type == ZYDIS_OPERAND_TYPE_MEMORY) {
    add_addresses(o, work);
    if (o.mem.type == ZYDIS_MEMOP_TYPE_MEM) {
      work.loads |= (o.actions & ZYDIS_OPERAND_ACTION_MASK_READ) != 0;
      work.stores |= (o.actions & ZYDIS_OPERAND_ACTION_MASK_WRITE) != 0;
    }
    // An address that is only computed is an operand like any other.
    if (o.mem.type == ZYDIS_MEMOP_TYPE_AGEN) {
      add(work.reads, register_of(o.mem.base));
      add(work.reads, register_of(o.mem.index));
    }
    return;
  }
  if (o.type != ZYDIS_OPERAND_TYPE_REGISTER) return;
  const CoreRegister r = register_of(o.reg.value);
  if (r == kNoCoreRegister) return;
  if (has_vector(r) || r == kX87) work.vector = true;
  const bool hidden_stack = o.visibility == ZYDIS_OPERAND_VISIBILITY_HIDDEN && r == kStackPointer;
  if (hidden_stack) {
    work.stacks = true;
    return;
  }
  if (o.actions & ZYDIS_OPERAND_ACTION_MASK_READ) add(work.reads, r);
  if (o.actions & ZYDIS_OPERAND_ACTION_MASK_WRITE) add(work.writes, r);
}

// xor eax, eax and its like give 0 whatever was there.
bool is_zero_idiom(const Decoded& d) {
  std::string_view name = ZydisMnemonicGetString(d.instruction.mnemonic);
  if (name.starts_with("v")) name.remove_prefix(1);
  const bool clears = name == "xor" || name == "sub" || name == "pxor" || name == "xorps" ||
                      name == "xorpd" || name == "pcmpeqd" || name == "pcmpeqb";
  const unsigned visible = d.instruction.operand_count_visible;
  if (!clears || visible < 2) return false;
  const ZydisDecodedOperand& a = d.operands[visible - 1];
  const ZydisDecodedOperand& b = d.operands[visible - 2];
  return a.type == ZYDIS_OPERAND_TYPE_REGISTER && b.type == ZYDIS_OPERAND_TYPE_REGISTER &&
         a.reg.value == b.reg.value;
}

void add_flags(const Decoded& d, Work& work) {
  const ZydisAccessedFlags* flags = d.instruction.cpu_flags;
  if (flags == nullptr) return;
  if (flags->tested) add(work.reads, kFlags);
  if (flags->modified | flags->set_0 | flags->set_1) add(work.writes, kFlags);
}

}  // namespace

Work work_of(std::span<const std::uint8_t> bytes) {
  Work work;
  Decoded d;
  if (!ZYAN_SUCCESS(ZydisDecoderDecodeFull(&decoder(), bytes.data(), bytes.size(), &d.instruction,
                                           d.operands)))
    return work;
  if (is_nothing(d.instruction)) {
    work.kind = WorkKind::kNothing;
    if (d.instruction.meta.category == ZYDIS_CATEGORY_PREFETCH) add_addresses(d.operands[0], work);
    return work;
  }
  for (std::uint8_t i = 0; i < d.instruction.operand_count; ++i)
    add_operand(d, d.operands[i], work);
  add_flags(d, work);
  if (is_zero_idiom(d))
    for (CoreRegister& r : work.reads) r = kNoCoreRegister;
  work.flow = flow_of(d);
  if (work.flow != WorkFlow::kNext)
    work.kind = WorkKind::kBranch;
  else if (work.vector)
    work.kind = is_vector_move(d) ? WorkKind::kMove : vector_kind(d);
  else
    work.kind = integer_kind(d, work);
  return work;
}

}  // namespace stallscope::code
