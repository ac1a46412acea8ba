// SPDX-License-Identifier: Apache-2.0
#include <doctest.h>

#include <random>
#include <vector>

#include "code/decode.h"

using namespace stallscope;
using namespace stallscope::code;
using Code = std::vector<std::uint8_t>;

namespace {

Instruction one(const Code& bytes, std::uint64_t address = 0x1000) {
  auto result = decode(bytes, Address(address));
  REQUIRE(result.ok());
  CHECK(result->length == bytes.size());
  CHECK(decode_shape(bytes).length == bytes.size());
  return *result;
}

}  // namespace

TEST_CASE("a load names base, index, scale and displacement") {
  // mov rax, [rbx+r9*8+0x10]
  Instruction i = one({0x4a, 0x8b, 0x44, 0xcb, 0x10});
  REQUIRE(i.memory().size() == 1);
  const MemoryOperand& m = i.memory()[0];
  CHECK(m.read);
  CHECK_FALSE(m.write);
  CHECK_FALSE(m.hidden);
  CHECK(m.size == 8);
  CHECK(m.base == 3);
  CHECK(m.index == 9);
  CHECK(m.scale == 8);
  CHECK(m.displacement == 0x10);
  CHECK_FALSE(m.fixed.has_value());
  CHECK(i.flow == Flow::kNext);
  CHECK(i.mnemonic == "mov");
}

TEST_CASE("an address relative to the instruction is fixed") {
  // add dword ptr [rip+0x100], 1
  Instruction i = one({0x83, 0x05, 0x00, 0x01, 0x00, 0x00, 0x01}, 0x2000);
  REQUIRE(i.memory().size() == 1);
  CHECK(i.memory()[0].read);
  CHECK(i.memory()[0].write);
  CHECK(i.memory()[0].base == kInstructionPointer);
  CHECK(i.memory()[0].fixed == Address(0x2107));
}

TEST_CASE("an address in thread-local storage is not fixed") {
  // mov rax, fs:[0x28]
  Instruction i = one({0x64, 0x48, 0x8b, 0x04, 0x25, 0x28, 0, 0, 0});
  REQUIRE(i.memory().size() == 1);
  CHECK(i.memory()[0].segment == SegmentBase::kFs);
  CHECK_FALSE(i.memory()[0].fixed.has_value());
}

TEST_CASE("the stack of push, pop, call and ret is a hidden operand") {
  struct Case {
    Code bytes;
    bool read, write;
    Flow flow;
  };
  for (const Case& c :
       {Case{{0x55}, false, true, Flow::kNext}, Case{{0x5d}, true, false, Flow::kNext},
        Case{{0xe8, 0xfb, 0, 0, 0}, false, true, Flow::kCall},
        Case{{0xc3}, true, false, Flow::kReturn}}) {
    Instruction i = one(c.bytes);
    CHECK(i.flow == c.flow);
    REQUIRE(i.memory().size() == 1);
    CHECK(i.memory()[0].hidden);
    CHECK(i.memory()[0].read == c.read);
    CHECK(i.memory()[0].write == c.write);
    CHECK(i.memory()[0].size == 8);
    CHECK(i.memory()[0].base == 4);
  }
}

TEST_CASE("an indirect call reads its target and writes the stack") {
  Instruction i = one({0xff, 0x15, 0x10, 0, 0, 0});  // call [rip+0x10]
  CHECK(i.flow == Flow::kCall);
  CHECK_FALSE(i.target.has_value());
  REQUIRE(i.memory().size() == 2);
  CHECK(i.memory()[0].read);
  CHECK(i.memory()[1].write);
}

TEST_CASE("direct branches have targets") {
  CHECK(one({0xe8, 0xfb, 0, 0, 0}, 0x1000).target == Address(0x1100));
  CHECK(one({0xeb, 0xfe}, 0x1000).target == Address(0x1000));
  CHECK(one({0xeb, 0xfe}).flow == Flow::kJump);
  CHECK(one({0x74, 0x10}, 0x1000).target == Address(0x1012));
  CHECK(one({0x74, 0x10}).flow == Flow::kBranch);
}

TEST_CASE("string instructions read and write, and repeat") {
  Instruction i = one({0xf3, 0xa4});  // rep movsb
  CHECK(i.repeats);
  REQUIRE(i.memory().size() == 2);
  bool reads = false, writes = false;
  for (const MemoryOperand& m : i.memory()) {
    reads |= m.read;
    writes |= m.write;
    CHECK(m.size == 1);
  }
  CHECK(reads);
  CHECK(writes);
}

TEST_CASE("addresses that are only computed are not accesses") {
  for (const Code& bytes : {Code{0x48, 0x8d, 0x40, 0x08},  // lea rax, [rax+8]
                            Code{0x0f, 0x1f, 0x40, 0x00},  // nop [rax]
                            Code{0x0f, 0x18, 0x08}}) {     // prefetcht0 [rax]
    Instruction i = one(bytes);
    for (const MemoryOperand& m : i.memory()) {
      CHECK_FALSE(m.read);
      CHECK_FALSE(m.write);
    }
  }
}

TEST_CASE("instruction sets that Valgrind lacks are told apart") {
  CHECK(one({0x62, 0xf1, 0x7c, 0x48, 0x58, 0xc1}).extension == Extension::kAvx512);  // vaddps zmm
  CHECK(one({0x62, 0xf1, 0x7c, 0x28, 0x58, 0xc1}).extension == Extension::kAvx512);  // its ymm form
  CHECK(one({0xc5, 0xf4, 0x47, 0xc9}).extension == Extension::kAvx512);              // kxorw
  CHECK(one({0xc4, 0xe2, 0x78, 0x49, 0xc0}).extension == Extension::kAmx);           // tilerelease
  CHECK(one({0xc5, 0xf4, 0x58, 0xc1}).extension == Extension::kBase);                // vaddps ymm
  CHECK(one({0x0f, 0xa2}).asks_cpu);                                                 // cpuid
  CHECK(one({0x0f, 0x01, 0xd0}).asks_cpu);                                           // xgetbv
}

TEST_CASE("bytes that are no instruction are an error, and so is a cut one") {
  CHECK_FALSE(decode(Code{0x06}, Address(0)).ok());
  CHECK_FALSE(decode(Code{}, Address(0)).ok());
  CHECK_FALSE(decode(Code{0x48, 0x8b}, Address(0)).ok());
  CHECK(decode_shape(Code{0x06}).length == 0);
  CHECK(disassemble(Code{0x06}, Address(0)).empty());
  CHECK(disassemble(Code{0x55}, Address(0)) == "push rbp");
}

TEST_CASE("random bytes never decode past their end") {
  std::mt19937_64 random(7);
  for (int n = 0; n < 200'000; ++n) {
    Code bytes(random() % 18);
    for (auto& b : bytes) b = static_cast<std::uint8_t>(random());
    auto full = decode(bytes, Address(random()));
    Shape shape = decode_shape(bytes);
    CHECK_EQ(full.ok(), shape.length != 0);
    CHECK(shape.length <= std::min(bytes.size(), kLongestInstruction));
    if (full) CHECK_EQ(full->length, shape.length);
  }
}
