// SPDX-License-Identifier: Apache-2.0
// Any bytes as an ELF file: open it, name addresses all over it, list its variables.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <vector>

#include "symbols/demangle.h"
#include "symbols/symbols.h"

namespace {

using namespace stallscope::symbols;

constexpr std::uint64_t kStepsPerSegment = 64;

// Limits at which everything still happens, but a run takes milliseconds.
Limits small_limits() {
  Limits limits;
  limits.decompressed_bytes = 4u << 20;
  limits.work = 3'000'000;
  limits.symbols = 100'000;
  limits.scopes = 100'000;
  limits.line_rows = 200'000;
  limits.variables = 20'000;
  return limits;
}

std::vector<std::uint64_t> sample_addresses(const Facts& facts) {
  std::vector<std::uint64_t> addresses = {0, 0x1000, UINT64_MAX};
  for (const Segment& segment : facts.segments) {
    std::uint64_t step = segment.memory_size / kStepsPerSegment + 1;
    for (std::uint64_t i = 0; i < kStepsPerSegment; ++i) {
      addresses.push_back(segment.address + i * step);
    }
  }
  return addresses;
}

void check(bool holds) {
  if (!holds) std::abort();
}

}  // namespace

int fuzz_symbols(const std::uint8_t* data, std::size_t size) {
  OpenOptions options;
  options.limits = small_limits();
  auto opened = Symbols::from_bytes({data, size}, options, nullptr);
  if (!opened) return 0;
  Symbols& symbols = **opened;
  auto addresses = sample_addresses(symbols.facts());
  for (const std::uint64_t address : addresses)
    if (const auto start = symbols.function_start(address)) check(*start <= address);
  auto locations = symbols.resolve(addresses);
  check(locations.size() == addresses.size());
  for (LocationId location : locations) {
    auto frames = symbols.frames(location);
    check(frames.empty() == (location == kUnknownLocation));
    check(frames.size() <= options.limits.inline_depth);
    for (const Frame& frame : frames) {
      check(symbols.text(frame.function).size() <= kMaxNameBytes);
      check(symbols.text(frame.file).size() <= kMaxNameBytes);
    }
  }
  std::uint64_t last = 0;
  for (const Variable& variable : symbols.variables()) {
    check(variable.address >= last && variable.name != kNoString);
    last = variable.address;
  }
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  return fuzz_symbols(data, size);
}
