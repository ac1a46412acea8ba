// SPDX-License-Identifier: Apache-2.0
// A libFuzzer target for the packets of Arm's SPE. The first byte says in how large pieces the rest
// comes: whatever they are, the same records must come out.
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "sources/spe_records.h"

namespace {

using namespace stallscope::sources;

std::vector<std::byte> samples_in(std::span<const std::byte> bytes, std::size_t at_once) {
  SpeReader reader;
  std::vector<std::byte> made;
  while (!bytes.empty()) {
    const std::size_t size = bytes.size() < at_once ? bytes.size() : at_once;
    reader.feed(bytes.first(size), [&](const SpeRecord& record) {
      SpeOrigin origin;
      origin.midr = 0x410fd0c0;
      append_sample(record, origin, 9, made);
    });
    bytes = bytes.subspan(size);
  }
  reader.end();
  return made;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const auto bytes = std::as_bytes(std::span(data, size)).subspan(1);
  const auto whole = samples_in(bytes, size);
  if (samples_in(bytes, std::size_t{1} + data[0]) != whole) std::abort();
  for (std::size_t at = 0; at < whole.size();) {
    auto parsed = parse(std::span(whole).subspan(at), Layout{kSpeSampleType});
    if (!parsed) std::abort();
    at += header_of(std::span(whole).subspan(at)).size;
  }
  return 0;
}
