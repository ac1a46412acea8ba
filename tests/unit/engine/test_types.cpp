// SPDX-License-Identifier: Apache-2.0
// What instructions do to registers, what is known where ways meet, and the types of this test
// program itself.
#include <doctest.h>
#include <link.h>

#include <memory>

#include "code/effect.h"
#include "symbols/symbol_cache.h"
#include "types/flow.h"
#include "types/inference.h"

namespace stallscope::types {

struct Pair {
  long first;
  double second;
  Pair* next;
};

// Found again by their addresses, so they must not be inlined or changed for one caller.
[[gnu::noipa]] double walk_pairs(const Pair* pair) {
  double sum = 0;
  for (; pair != nullptr; pair = pair->next) sum += pair->second;
  return sum;
}
[[gnu::noipa]] Pair* make_pair_on_heap(long first) { return new Pair{first, 1, nullptr}; }

namespace {

using code::Move;

code::Effect effect(std::initializer_list<std::uint8_t> bytes) {
  const std::vector<std::uint8_t> copy(bytes);
  auto instruction = code::decode(copy, Address(0x1000));
  REQUIRE(instruction);
  CHECK(instruction->length == copy.size());
  return code::effect_of(copy, *instruction);
}

constexpr int kRax = 0, kRcx = 1, kRdx = 2, kRsp = 4, kRbp = 5, kRdi = 7, kR12 = 12;

TEST_CASE("moves between registers and memory") {
  auto copy = effect({0x48, 0x89, 0xf8});  // mov rax, rdi
  CHECK(copy.move == Move::kCopy);
  CHECK(copy.to == kRax);
  CHECK(copy.from == kRdi);
  CHECK(copy.written == 1u << kRax);
  auto load = effect({0x48, 0x8b, 0x47, 0x18});  // mov rax, [rdi+0x18]
  CHECK(load.move == Move::kLoad);
  CHECK(load.to == kRax);
  CHECK(load.memory.base == kRdi);
  CHECK(load.memory.displacement == 0x18);
  auto store = effect({0x4c, 0x89, 0x65, 0xf8});  // mov [rbp-8], r12
  CHECK(store.move == Move::kStore);
  CHECK(store.from == kR12);
  CHECK(store.memory.base == kRbp);
  CHECK(store.written == 0);
  auto narrow = effect({0x8b, 0x47, 0x18});  // mov eax, [rdi+0x18]
  CHECK(narrow.move == Move::kLoadLow);
  CHECK(narrow.to == kRax);
  CHECK(narrow.memory.size == 4);
  CHECK(narrow.written == 1u << kRax);
  CHECK(effect({0x48, 0x63, 0x47, 0x18}).move == Move::kLoadInt);  // movsxd rax, [rdi+0x18]
  CHECK(effect({0x66, 0x8b, 0x47, 0x18}).move == Move::kOther);    // mov ax: the rest of rax stays
}

TEST_CASE("arithmetic on addresses") {
  auto lea = effect({0x48, 0x8d, 0x14, 0xd0});  // lea rdx, [rax+rdx*8]
  CHECK(lea.move == Move::kAddress);
  CHECK(lea.to == kRdx);
  CHECK(lea.memory.scale == 8);
  auto add = effect({0x48, 0x83, 0xc2, 0x20});  // add rdx, 0x20
  CHECK(add.move == Move::kAdd);
  CHECK(add.amount == 0x20);
  auto sub = effect({0x48, 0x83, 0xec, 0x28});  // sub rsp, 0x28
  CHECK(sub.to == kRsp);
  CHECK(sub.amount == -0x28);
  auto sum = effect({0x48, 0x01, 0xc1});  // add rcx, rax
  CHECK(sum.move == Move::kSum);
  CHECK(sum.to == kRcx);
  CHECK(sum.from == kRax);
  CHECK(effect({0x48, 0xff, 0xc8}).amount == -1);                // dec rax
  CHECK(effect({0x31, 0xc0}).move == Move::kZero);               // xor eax, eax
  CHECK(effect({0x30, 0xc0}).move == Move::kOther);              // xor al, al
  CHECK(effect({0xb8, 0, 0, 0, 0}).move == Move::kZero);         // mov eax, 0
  CHECK(effect({0x48, 0x0f, 0x44, 0xc7}).move == Move::kMaybe);  // cmove rax, rdi
  CHECK(effect({0x55}).move == Move::kPush);
  CHECK(effect({0x5d}).to == kRbp);
  auto divide = effect({0x49, 0xf7, 0xf0});  // div r8
  CHECK(divide.move == Move::kOther);
  CHECK(divide.written == (1u << kRax | 1u << kRdx));
}

TEST_CASE("what holds where ways meet") {
  const Value node = Value::pointer(7, 8), start = Value::pointer(7, 0);
  CHECK(either(Value{}, node) == node);
  CHECK(either(node, Value::null()) == node);
  CHECK(either(node, start) == start);
  CHECK(either(node, Value::pointer(8, 8)) == Value::nothing());
  CHECK(either(Value::result(4), Value::result(5)) == Value::nothing());
  CHECK(either(Value::null(), Value::stack(8)) == Value::nothing());
  State state;
  State other;
  other.registers[3] = node;
  other.set_slot(-16, node);
  other.set_slot(-24, start);
  CHECK(state.join(other));
  CHECK(state.registers[3] == node);
  CHECK_FALSE(state.join(other));
  other.set_slot(-16, Value::nothing());
  other.registers[3] = Value::nothing();
  CHECK(state.join(other));
  CHECK(state.slot(-16) == nullptr);
  CHECK(*state.slot(-24) == start);
  CHECK(state.registers[3] == Value::nothing());
  for (std::int64_t i = 0; i < 1000; ++i) state.set_slot(i * 8, node);
  CHECK(state.slots.size() <= 64);
}

// Where the loader put this program: the first of all modules.
std::uint64_t own_bias() {
  std::uint64_t bias = 0;
  dl_iterate_phdr(
      [](dl_phdr_info* info, std::size_t, void* result) {
        *static_cast<std::uint64_t*>(result) = info->dlpi_addr;
        return 1;
      },
      &bias);
  return bias;
}

TEST_CASE("accesses of a function in this program have their types") {
  symbols::SymbolCache cache;
  auto symbols = cache.open("/proc/self/exe");
  REQUIRE(symbols);
  const auto address = reinterpret_cast<std::uint64_t>(&walk_pairs);
  auto function = (*symbols)->function_at(address - own_bias());
  REQUIRE(function);
  const Followed found = follow(**symbols, *function, 10'000);
  REQUIRE(found.accesses.size() >= 2);
  for (const Access& access : found.accesses) {
    const symbols::Type& type = (*symbols)->types()->get(access.at.type);
    CHECK((*symbols)->text(type.name) == "stallscope::types::Pair");
  }
  CHECK(follow(**symbols, *function, 3).accesses.empty());  // more than it may look at
}

TEST_CASE("an allocation is of the type that its result is returned as") {
  symbols::SymbolCache cache;
  const std::uint64_t bias = own_bias();
  Inference inference({{"/proc/self/exe", "", bias, bias, ~0ULL}}, cache);
  auto symbols = *cache.open("/proc/self/exe");
  const auto address = reinterpret_cast<std::uint64_t>(&make_pair_on_heap);
  auto function = symbols->function_at(address - bias);
  REQUIRE(function);
  std::vector<std::uint64_t> found;
  for (const Assignment& one : follow(*symbols, *function, 10'000).assignments)
    found.push_back(one.call + bias);
  REQUIRE(found.size() == 1);
  const Guess guess = inference.infer({{}, found, sizeof(Pair)});
  REQUIRE(guess.symbols != nullptr);
  CHECK(guess.symbols->text(symbols->types()->get(guess.type).name) == "stallscope::types::Pair");
  CHECK(guess.is_allocated);
  CHECK(element_size(guess) == sizeof(Pair));
  CHECK(inference.infer({{}, found, sizeof(Pair) - 1}).symbols == nullptr);  // does not fit
}

TEST_CASE("nothing is guessed where nothing is known") {
  symbols::SymbolCache cache;
  Inference inference({{"/nonexistent", "", 0, 0, ~0ULL}, {"/dev/null", "", 0, 0, ~0ULL}}, cache);
  CHECK(inference.infer({{{0x1000, false, 8, 5}}, {0x2000}, 64}).symbols == nullptr);
  CHECK(inference.variable(0x1000).symbols == nullptr);
  CHECK(element_size({}) == 0);
  CHECK(walk_pairs(std::unique_ptr<Pair>(make_pair_on_heap(3)).get()) == 1);
}

}  // namespace
}  // namespace stallscope::types
