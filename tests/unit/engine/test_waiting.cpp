// SPDX-License-Identifier: Apache-2.0
// From where a program stands to the access that it waits for, in machine code as assemblers make
// it. The registers in the tests hold 0x1000 times their number.
#include <doctest.h>

#include <map>

#include "sources/waiting.h"

namespace stallscope::sources {
namespace {

constexpr std::uint64_t kStart = 0x400000;
constexpr std::uint64_t kBias = 0x7f0000000000;
constexpr std::uint64_t kPointsTo = 0x5550000;
constexpr std::uint64_t kNowhere = 0x8000 + 8;  // rdi+8, where nothing can be read
enum Register : std::uint64_t { kRax, kRcx, kRdx, kRbx, kRsp, kRbp, kRsi, kRdi };
std::uint64_t in(Register r) { return 0x1000 * (r + 1); }

UserRegisters registers() {
  UserRegisters out{};
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = 0x1000 * (i + 1);
  return out;
}

struct Stands {
  Recipe recipe;
  std::optional<std::uint64_t> address;
};

// The program stands `offset` bytes behind the start of the code.
Stands at(std::vector<std::uint8_t> code, std::uint64_t offset, unsigned skid = 1) {
  const FunctionCode function = read_function(code, kStart);
  Stands out{recipe_at(function, kStart + offset, skid), {}};
  const auto read = [](std::uint64_t address) -> std::optional<std::uint64_t> {
    if (address == kNowhere) return std::nullopt;
    return address + kPointsTo;  // every pointer points this far
  };
  out.address = address_of(out.recipe, registers(), kBias, read);
  return out;
}

}  // namespace

TEST_CASE("the access before is the one that was waited for") {
  // add 0x8(%rdi),%rax; mov (%rdi),%rdi; ret
  const Stands s = at({0x48, 0x03, 0x47, 0x08, 0x48, 0x8b, 0x3f, 0xc3}, 4);
  CHECK(s.recipe.known);
  CHECK(s.recipe.instruction == kStart);
  CHECK(s.recipe.reads);
  CHECK_FALSE(s.recipe.writes);
  CHECK(s.recipe.size == 8);
  CHECK(s.recipe.how == How::kExact);
  CHECK(s.address == in(kRdi) + 8);
}

TEST_CASE("without skid it is the one that the program stands at") {
  const Stands s = at({0x48, 0x03, 0x47, 0x08, 0x48, 0x8b, 0x3f, 0xc3}, 4, 0);
  CHECK(s.recipe.instruction == kStart + 4);
  CHECK(s.recipe.how == How::kExact);
  CHECK(s.address == in(kRdi));
}

TEST_CASE("a chain that overwrites its pointer gives the next address") {
  // 1: mov (%rax),%rax; test %rax,%rax; jne 1b; ret
  const Stands s = at({0x48, 0x8b, 0x00, 0x48, 0x85, 0xc0, 0x75, 0xf8, 0xc3}, 3);
  CHECK(s.recipe.how == How::kNext);
  CHECK(s.address == in(kRax));
}

TEST_CASE("a chain of indices does too, unless something else changes the index") {
  // 1: mov (%rdx,%rax,8),%rax; dec %rcx; jne 1b; ret
  const Stands s = at({0x48, 0x8b, 0x04, 0xc2, 0x48, 0xff, 0xc9, 0x75, 0xf7, 0xc3}, 4);
  CHECK(s.recipe.how == How::kNext);
  CHECK(s.address == in(kRdx) + 8 * in(kRax));
  // 1: mov (%rdx,%rax,8),%rax; and $0xff,%eax; dec %rcx; jne 1b; ret
  const Stands masked =
      at({0x48, 0x8b, 0x04, 0xc2, 0x25, 0xff, 0x00, 0x00, 0x00, 0x48, 0xff, 0xc9, 0x75, 0xf2, 0xc3},
         4);
  CHECK(masked.recipe.reads);
  CHECK(masked.recipe.how == How::kNone);
  CHECK_FALSE(masked.address);
}

TEST_CASE("what was overwritten is found where it was copied to") {
  // mov %rax,%rdx; mov (%rax),%rax; nop; ret
  const Stands s = at({0x48, 0x89, 0xc2, 0x48, 0x8b, 0x00, 0x90, 0xc3}, 6);
  CHECK(s.recipe.how == How::kKept);
  CHECK(s.address == in(kRdx));
}

TEST_CASE("what was overwritten is made again from what it was made of") {
  // lea 0x10(%rbx,%rcx,4),%rax; mov 0x8(%rax),%eax; nop; ret
  const Stands s = at({0x48, 0x8d, 0x44, 0x8b, 0x10, 0x8b, 0x40, 0x08, 0x90, 0xc3}, 8);
  CHECK(s.recipe.how == How::kKept);
  CHECK(s.recipe.size == 4);
  CHECK(s.address == in(kRbx) + 4 * in(kRcx) + 0x18);
}

TEST_CASE("a pointer that was overwritten is read again where it came from") {
  // mov 0x10(%rdi),%rax; add $8,%rax; mov (%rax,%rcx,4),%eax; nop; ret
  const Stands s =
      at({0x48, 0x8b, 0x47, 0x10, 0x48, 0x83, 0xc0, 0x08, 0x8b, 0x04, 0x88, 0x90, 0xc3}, 11);
  CHECK(s.recipe.how == How::kRead);
  CHECK(s.address == in(kRdi) + 0x10 + kPointsTo + 8 + 4 * in(kRcx));
  // mov 0x8(%rdi),%rax; mov (%rax),%rax; nop; ret
  const Stands gone = at({0x48, 0x8b, 0x47, 0x08, 0x48, 0x8b, 0x00, 0x90, 0xc3}, 7);
  CHECK(gone.recipe.how == How::kRead);
  CHECK_FALSE(gone.address);
  // mov 0x100(%rip),%rax; mov (%rax),%rax; nop; ret
  const Stands global =
      at({0x48, 0x8b, 0x05, 0x00, 0x01, 0x00, 0x00, 0x48, 0x8b, 0x00, 0x90, 0xc3}, 10);
  CHECK(global.address == kBias + kStart + 7 + 0x100 + kPointsTo);
}

TEST_CASE("an index that was overwritten is read again, however far its array was counted on") {
  // mov 0x10000000(%rdi,%rcx,4),%esi; add $1,%rcx; mov (%rbx,%rsi,4),%esi; nop; ret
  const Stands s = at({0x8b, 0xb4, 0x8f, 0x00, 0x00, 0x00, 0x10, 0x48, 0x83, 0xc1, 0x01, 0x8b, 0x34,
                       0xb3, 0x90, 0xc3},
                      14);
  CHECK(s.recipe.how == How::kRead);
  CHECK(s.recipe.pointer_bytes == 4);
  const std::uint64_t word = 0x10000000 + in(kRdi) + 4 * (in(kRcx)-1) + kPointsTo;
  CHECK(s.address == in(kRbx) + 4 * (word & 0xffffffff));
  // movsbq (%rdi,%rcx,4),%rsi; mov (%rbx,%rsi,4),%esi; nop; ret
  const Stands byte = at({0x48, 0x0f, 0xbe, 0x34, 0x8f, 0x8b, 0x34, 0xb3, 0x90, 0xc3}, 8);
  CHECK(byte.recipe.pointer_bytes == 1);
  CHECK(byte.recipe.pointer_signed);
  // mov (%rdi,%rcx,4),%esi; shl $1,%rcx; mov (%rbx,%rsi,4),%esi; nop; ret
  const Stands gone = at({0x8b, 0x34, 0x8f, 0x48, 0xd1, 0xe1, 0x8b, 0x34, 0xb3, 0x90, 0xc3}, 9);
  CHECK(gone.recipe.how == How::kNone);
}

TEST_CASE("where an index is lost, the array that it goes into is known") {
  // and $7,%esi; mov (%rbx,%rsi,4),%esi; nop; ret
  const Stands s = at({0x83, 0xe6, 0x07, 0x8b, 0x34, 0xb3, 0x90, 0xc3}, 6);
  CHECK(s.recipe.how == How::kNone);
  CHECK(array_of(s.recipe, registers()) == in(kRbx));
  // and $7,%esi; mov (%rbx,%rsi),%esi; nop; ret: either may be the array
  const Stands either = at({0x83, 0xe6, 0x07, 0x8b, 0x34, 0x33, 0x90, 0xc3}, 6);
  CHECK_FALSE(array_of(either.recipe, registers()));
}

TEST_CASE("an index that lay on the stack is not there any more") {
  // mov 0x8(%rsp,%rcx,4),%esi; mov (%rbx,%rsi,4),%esi; nop; ret
  const Stands s = at({0x8b, 0x74, 0x8c, 0x08, 0x8b, 0x34, 0xb3, 0x90, 0xc3}, 7);
  CHECK(s.recipe.how == How::kRead);
  CHECK_FALSE(s.address);
  CHECK(array_of(s.recipe, registers()) == in(kRbx));
}

TEST_CASE("the page at the stack pointer is not waited for") {
  CHECK(is_on_top_of_stack(in(kRsp)-128, registers()));
  CHECK(is_on_top_of_stack(in(kRsp) + 4095, registers()));
  CHECK_FALSE(is_on_top_of_stack(in(kRsp)-129, registers()));
  CHECK_FALSE(is_on_top_of_stack(in(kRsp) + 4096, registers()));
}

TEST_CASE("an index below zero is one") {
  Recipe recipe;
  recipe.how = How::kRead;
  recipe.pointer_scale = 8;
  recipe.pointer_bytes = 4;
  recipe.pointer_signed = true;
  recipe.sum.constant = 0x1000;
  const auto read = [](std::uint64_t) { return std::optional<std::uint64_t>(0x7ffffffffe); };
  CHECK(address_of(recipe, registers(), 0, read) == 0x1000 - 16);
  recipe.pointer_signed = false;
  CHECK(address_of(recipe, registers(), 0, read) == 0x1000 + 8 * 0xfffffffeULL);
}

TEST_CASE("a copy from before a loop is not what its pointer holds") {
  // mov %rdi,%rax; 1: mov (%rax),%rax; dec %rcx; jne 1b; ret
  const Stands s = at({0x48, 0x89, 0xf8, 0x48, 0x8b, 0x00, 0x48, 0xff, 0xc9, 0x75, 0xf8, 0xc3}, 6);
  CHECK(s.recipe.how == How::kNext);
  CHECK(s.address == in(kRax));
}

TEST_CASE("what is lost is said to be lost") {
  // mov (%rax),%rax; nop; ret
  const Stands s = at({0x48, 0x8b, 0x00, 0x90, 0xc3}, 3);
  CHECK(s.recipe.reads);
  CHECK(s.recipe.how == How::kNone);
  CHECK_FALSE(s.address);
}

TEST_CASE("a comparison waits together with its branch, on both ways out") {
  // 1: add $8,%rdi; cmp (%rdi),%rsi; jne 1b; ret
  const std::vector<std::uint8_t> code{0x48, 0x83, 0xc7, 0x08, 0x48, 0x3b, 0x37, 0x75, 0xf7, 0xc3};
  for (const std::uint64_t offset : {0u, 9u}) {
    const Stands s = at(code, offset);
    CHECK(s.recipe.instruction == kStart + 4);
    CHECK(s.recipe.how == How::kExact);
    CHECK(s.address == in(kRdi));
  }
}

TEST_CASE("what is put aside and jumps back into a loop does not make another loop") {
  // 1: test %rcx,%rcx; je 3f; mov (%rdi,%rcx,8),%rax; 2: dec %rsi; jne 1b; ret
  // 3: mov $1,%eax; jmp 2b
  const std::vector<std::uint8_t> code{0x48, 0x85, 0xc9, 0x74, 0x0a, 0x48, 0x8b, 0x04,
                                       0xcf, 0x48, 0xff, 0xce, 0x75, 0xf2, 0xc3, 0xb8,
                                       0x01, 0x00, 0x00, 0x00, 0xeb, 0xf3};
  const Stands join = at(code, 9);
  CHECK(join.recipe.instruction == kStart + 5);
  CHECK(join.address == in(kRdi) + 8 * in(kRcx));
  const Stands head = at(code, 0);
  CHECK(head.recipe.instruction == kStart + 12);
}

TEST_CASE("a loop that is entered at its condition comes from its end") {
  // jmp 2f; nop; 1: mov (%rax),%rax; 2: test %rax,%rax; jne 1b; ret
  const std::vector<std::uint8_t> code{0xeb, 0x04, 0x90, 0x48, 0x8b, 0x00,
                                       0x48, 0x85, 0xc0, 0x75, 0xf8, 0xc3};
  CHECK(at(code, 3).recipe.instruction == kStart + 9);
  const Stands chain = at(code, 6);
  CHECK(chain.recipe.how == How::kNext);
  CHECK(chain.address == in(kRax));
}

TEST_CASE("variables have the file's own address, and the module's bias on top") {
  // mov 0x100(%rip),%rax; nop; ret
  const Stands s = at({0x48, 0x8b, 0x05, 0x00, 0x01, 0x00, 0x00, 0x90, 0xc3}, 7);
  CHECK(s.address == kBias + kStart + 7 + 0x100);
}

TEST_CASE("an instruction without memory computes") {
  // imul %rax,%rdx; nop; ret
  const Stands s = at({0x48, 0x0f, 0xaf, 0xd0, 0x90, 0xc3}, 4);
  CHECK(s.recipe.known);
  CHECK_FALSE(s.recipe.accesses());
}

namespace {

// sum += factors[i] * data[order[i]], as compilers write it:
// 1: mov (%r10,%rax,4),%edx; movsd (%r11,%rdx,8),%xmm0; mulsd (%rdi,%rax,8),%xmm0; add $1,%rax;
//    addsd %xmm0,%xmm1; cmp %rax,%rsi; jne 1b; ret
const std::vector<std::uint8_t> kProduct = {
    0x41, 0x8b, 0x14, 0x82, 0xf2, 0x41, 0x0f, 0x10, 0x04, 0xd3, 0xf2, 0x0f, 0x59, 0x04, 0xc7,
    0x48, 0x83, 0xc0, 0x01, 0xf2, 0x0f, 0x58, 0xc8, 0x48, 0x39, 0xc6, 0x75, 0xe4, 0xc3};
constexpr std::uint64_t kBehindLoad = 10, kBehindMultiplication = 15, kBehindAddition = 23;

double waits(std::uint64_t offset, const std::map<std::uint64_t, std::uint64_t>& samples) {
  const FunctionCode code = read_function(kProduct, kStart);
  return waits_at(code, kStart + offset, 1, [&](std::uint64_t ip) {
    const auto found = samples.find(ip - kStart);
    return found == samples.end() ? std::uint64_t{0} : found->second;
  });
}

}  // namespace

TEST_CASE("arithmetic takes cycles of its own, with a memory operand and without") {
  CHECK(at(kProduct, kBehindMultiplication).recipe.computes);
  CHECK(at(kProduct, kBehindMultiplication).recipe.reads);
  CHECK(at(kProduct, kBehindAddition).recipe.computes);
  CHECK_FALSE(at(kProduct, kBehindLoad).recipe.computes);
}

TEST_CASE("a multiplication from memory waits where it takes longer than the addition behind it") {
  // As found on a real core, with data in the first caches and far away.
  CHECK(waits(kBehindMultiplication, {{kBehindMultiplication, 100}, {kBehindAddition, 85}}) < 0.5);
  CHECK(waits(kBehindMultiplication, {{kBehindMultiplication, 500}, {kBehindAddition, 85}}) > 0.5);
}

TEST_CASE("a load is not compared with arithmetic, but with what takes a cycle") {
  CHECK(waits(kBehindLoad, {{kBehindLoad, 20}, {kBehindAddition, 36}}) == 1);
  CHECK(waits(kBehindLoad, {{kBehindLoad, 20}, {26, 30}, {19, 30}}) < 0.5);
}

TEST_CASE("an atomic operation takes its time without waiting") {
  // lock incq (%rdi); inc %rax; inc %rcx; dec %rdx; jne 0; ret
  const std::vector<std::uint8_t> bytes{0xf0, 0x48, 0xff, 0x07, 0x48, 0xff, 0xc0, 0x48,
                                        0xff, 0xc1, 0x48, 0xff, 0xca, 0x75, 0xf1, 0xc3};
  const FunctionCode code = read_function(bytes, kStart);
  const auto waits = [&](std::uint64_t behind) {
    return waits_at(code, kStart + 4, 1, [&](std::uint64_t ip) -> std::uint64_t {
      return ip == kStart + 4 ? behind : 4;
    });
  };
  CHECK(recipe_at(code, kStart + 4, 1).locks);
  CHECK(waits(100) < 0.5);   // as long as 25 others: nobody else wants the line
  CHECK(waits(2000) > 0.9);  // it is somewhere else
}

TEST_CASE("a repeated instruction is interrupted in its midst") {
  // rep movsb; ret
  const Stands s = at({0xf3, 0xa4, 0xc3}, 0);
  CHECK(s.recipe.instruction == kStart);
  CHECK(s.recipe.reads);
  CHECK(s.address == in(kRsi));
}

TEST_CASE("where nothing is known to come before, nothing is said") {
  // jmp 1f; nop; 1: ret  -- the nop is reached from nowhere
  const std::vector<std::uint8_t> code{0xeb, 0x01, 0x90, 0xc3};
  CHECK_FALSE(at(code, 2).recipe.known);
  CHECK_FALSE(at(code, 0).recipe.known);  // the function's first instruction
  CHECK_FALSE(at(code, 1).recipe.known);  // in the midst of an instruction
  CHECK_FALSE(at(code, 99).recipe.known);
}

}  // namespace stallscope::sources
