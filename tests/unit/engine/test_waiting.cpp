// SPDX-License-Identifier: Apache-2.0
// From where a program stands to the access that it waits for, in machine code as assemblers make
// it. The registers in the tests hold 0x1000 times their number.
#include <doctest.h>

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
