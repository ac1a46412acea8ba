// SPDX-License-Identifier: Apache-2.0
// Any bytes as an ELF file: read the layouts of all its types, ask what lies at offsets, and follow
// pointers through its functions.
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "symbols/symbols.h"
#include "types/flow.h"

namespace {

using namespace stallscope;
using namespace stallscope::symbols;

constexpr std::size_t kMostTypes = 300;
constexpr std::uint64_t kStepsPerSegment = 40;

// Limits at which everything still happens, but a run takes milliseconds.
Limits small_limits() {
  Limits limits;
  limits.decompressed_bytes = 4u << 20;
  limits.work = 1'000'000;
  limits.symbols = 20'000;
  limits.scopes = 20'000;
  limits.line_rows = 20'000;
  limits.variables = 2'000;
  limits.types = 5'000;
  limits.members = 20'000;
  limits.locals = 2'000;
  return limits;
}

void check(bool holds) {
  if (!holds) std::abort();
}

void look_at(TypeTable& types, TypeId id) {
  const Type& type = types.get(id);
  for (const Member& member : type.members) {
    check(member.offset <= type.size && member.size <= type.size - member.offset);
    check(member.bit_size == 0 || member.bit_offset < 8);
  }
  for (std::uint64_t offset : {std::uint64_t{0}, type.size / 2, type.size, UINT64_MAX / 2}) {
    const Field field = types.field(id, offset);
    check(field.path.size() <= kMaxNameBytes);
  }
  types.contains(id, "int", 4);
  types.element(id);
}

void follow_at(Symbols& symbols, std::uint64_t address) {
  auto function = symbols.function_at(address);
  if (!function) return;
  const types::Followed found = types::follow(symbols, *function, 3'000);
  std::uint64_t last = 0;
  for (const types::Access& access : found.accesses) {
    check(access.address >= last);
    last = access.address;
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  OpenOptions options;
  options.limits = small_limits();
  auto opened = Symbols::from_bytes({data, size}, options, nullptr);
  if (!opened || (*opened)->types() == nullptr) return 0;
  Symbols& symbols = **opened;
  std::size_t seen = 0;
  for (TypeId id : symbols.types()->all()) {
    if (++seen > kMostTypes) break;
    look_at(*symbols.types(), id);
  }
  for (const Variable& variable : symbols.variables()) look_at(*symbols.types(), variable.type_id);
  for (const Segment& segment : symbols.facts().segments) {
    if (!segment.executable) continue;
    const std::uint64_t step = segment.memory_size / kStepsPerSegment + 1;
    for (std::uint64_t i = 0; i < kStepsPerSegment; ++i)
      follow_at(symbols, segment.address + i * step);
  }
  return 0;
}
