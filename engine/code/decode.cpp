// SPDX-License-Identifier: Apache-2.0
#include "code/decode.h"

#include <Zydis/Zydis.h>

namespace stallscope::code {
namespace {

const ZydisDecoder& decoder() {
  static const ZydisDecoder shared = [] {
    ZydisDecoder d;
    ZydisDecoderInit(&d, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64);
    return d;
  }();
  return shared;
}

Extension extension_of(const ZydisDecodedInstruction& i) {
  switch (i.meta.isa_ext) {
    case ZYDIS_ISA_EXT_AMX_BF16:
    case ZYDIS_ISA_EXT_AMX_INT8:
    case ZYDIS_ISA_EXT_AMX_TILE:
      return Extension::kAmx;
    case ZYDIS_ISA_EXT_AVX512EVEX:
    case ZYDIS_ISA_EXT_AVX512VEX:  // mask registers, encoded without EVEX
      return Extension::kAvx512;
    default:
      return i.encoding == ZYDIS_INSTRUCTION_ENCODING_EVEX ? Extension::kAvx512 : Extension::kBase;
  }
}

Flow flow_of(const ZydisDecodedInstruction& i) {
  switch (i.meta.category) {
    case ZYDIS_CATEGORY_CALL:
      return Flow::kCall;
    case ZYDIS_CATEGORY_RET:
      return Flow::kReturn;
    case ZYDIS_CATEGORY_UNCOND_BR:
      return Flow::kJump;
    case ZYDIS_CATEGORY_COND_BR:
      // A transaction's begin and end count as branches for Zydis; control goes on behind them.
      return i.mnemonic == ZYDIS_MNEMONIC_XEND ? Flow::kNext : Flow::kBranch;
    default:
      return Flow::kNext;
  }
}

RegisterNumber number_of(ZydisRegister r) {
  if (r == ZYDIS_REGISTER_NONE) return kNoRegister;
  if (r == ZYDIS_REGISTER_RIP || r == ZYDIS_REGISTER_EIP) return kInstructionPointer;
  switch (ZydisRegisterGetClass(r)) {
    case ZYDIS_REGCLASS_GPR64:
    case ZYDIS_REGCLASS_GPR32:
      return static_cast<RegisterNumber>(ZydisRegisterGetId(r));
    case ZYDIS_REGCLASS_XMM:
    case ZYDIS_REGCLASS_YMM:
    case ZYDIS_REGCLASS_ZMM:
      return kVectorRegister;
    default:
      return kNoRegister;
  }
}

std::optional<Address> fixed_address(const ZydisDecodedInstruction& i, const MemoryOperand& m,
                                     Address address) {
  bool relative = m.base == kInstructionPointer;
  if (m.index != kNoRegister || (m.base != kNoRegister && !relative)) return std::nullopt;
  if (m.segment != SegmentBase::kZero) return std::nullopt;
  auto displacement = static_cast<std::uint64_t>(m.displacement);
  return Address(relative ? address.value + i.length + displacement : displacement);
}

MemoryOperand memory_operand(const ZydisDecodedInstruction& i, const ZydisDecodedOperand& o,
                             Address address) {
  MemoryOperand m;
  bool many = o.mem.type == ZYDIS_MEMOP_TYPE_VSIB;
  m.size = (many && o.element_size ? o.element_size : o.size) / 8;
  bool accessed = o.mem.type == ZYDIS_MEMOP_TYPE_MEM || many;
  bool hint = i.meta.category == ZYDIS_CATEGORY_PREFETCH ||
              i.meta.category == ZYDIS_CATEGORY_WIDENOP || i.meta.category == ZYDIS_CATEGORY_NOP;
  if (accessed && !hint) {
    m.read = o.actions & ZYDIS_OPERAND_ACTION_MASK_READ;
    m.write = o.actions & ZYDIS_OPERAND_ACTION_MASK_WRITE;
    m.conditional = o.actions & (ZYDIS_OPERAND_ACTION_CONDREAD | ZYDIS_OPERAND_ACTION_CONDWRITE);
  }
  m.hidden = o.visibility == ZYDIS_OPERAND_VISIBILITY_HIDDEN;
  m.base = number_of(o.mem.base);
  m.index = number_of(o.mem.index);
  m.scale = o.mem.scale;
  if (o.mem.segment == ZYDIS_REGISTER_FS) m.segment = SegmentBase::kFs;
  if (o.mem.segment == ZYDIS_REGISTER_GS) m.segment = SegmentBase::kGs;
  m.displacement = o.mem.disp.has_displacement ? o.mem.disp.value : 0;
  m.fixed = fixed_address(i, m, address);
  return m;
}

void add_operand(Instruction& out, const ZydisDecodedInstruction& i, const ZydisDecodedOperand& o,
                 Address address) {
  if (o.type == ZYDIS_OPERAND_TYPE_MEMORY && out.operand_count < kMostMemoryOperands)
    out.operands[out.operand_count++] = memory_operand(i, o, address);
  if (o.type != ZYDIS_OPERAND_TYPE_IMMEDIATE) return;
  if (o.imm.is_relative)
    out.target = Address(address.value + i.length + o.imm.value.u);
  else
    out.immediate = o.imm.value.u;
}

bool is_repeated(const ZydisDecodedInstruction& i) {
  return i.attributes & (ZYDIS_ATTRIB_HAS_REP | ZYDIS_ATTRIB_HAS_REPE | ZYDIS_ATTRIB_HAS_REPNE);
}

}  // namespace

Result<Instruction> decode(std::span<const std::uint8_t> bytes, Address address) {
  ZydisDecodedInstruction i;
  ZydisDecodedOperand operands[ZYDIS_MAX_OPERAND_COUNT];
  if (!ZYAN_SUCCESS(ZydisDecoderDecodeFull(&decoder(), bytes.data(), bytes.size(), &i, operands)))
    return Error{"these bytes are no x86-64 instruction", "", ""};
  Instruction out;
  out.length = i.length;
  out.flow = flow_of(i);
  out.extension = extension_of(i);
  out.repeats = is_repeated(i);
  out.locks = i.attributes & ZYDIS_ATTRIB_HAS_LOCK;
  out.asks_cpu = i.mnemonic == ZYDIS_MNEMONIC_CPUID || i.mnemonic == ZYDIS_MNEMONIC_XGETBV;
  out.mnemonic = ZydisMnemonicGetString(i.mnemonic);
  for (std::uint8_t k = 0; k < i.operand_count; ++k) add_operand(out, i, operands[k], address);
  out.locks |= i.mnemonic == ZYDIS_MNEMONIC_XCHG && out.operand_count > 0;
  return out;
}

Shape decode_shape(std::span<const std::uint8_t> bytes) {
  ZydisDecodedInstruction i;
  if (!ZYAN_SUCCESS(
          ZydisDecoderDecodeInstruction(&decoder(), nullptr, bytes.data(), bytes.size(), &i)))
    return {};
  return {i.length, extension_of(i)};
}

std::string disassemble(std::span<const std::uint8_t> bytes, Address address) {
  ZydisDecodedInstruction i;
  ZydisDecodedOperand operands[ZYDIS_MAX_OPERAND_COUNT];
  if (!ZYAN_SUCCESS(ZydisDecoderDecodeFull(&decoder(), bytes.data(), bytes.size(), &i, operands)))
    return {};
  static const ZydisFormatter formatter = [] {
    ZydisFormatter f;
    ZydisFormatterInit(&f, ZYDIS_FORMATTER_STYLE_INTEL);
    return f;
  }();
  char text[256];
  if (!ZYAN_SUCCESS(ZydisFormatterFormatInstruction(&formatter, &i, operands,
                                                    i.operand_count_visible, text, sizeof text,
                                                    address.value, nullptr)))
    return {};
  return text;
}

}  // namespace stallscope::code
