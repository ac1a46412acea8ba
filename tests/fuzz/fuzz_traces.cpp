// SPDX-License-Identifier: Apache-2.0
// A libFuzzer target for the readers of other tools' traces: the first byte chooses the format, the
// second where the file is cut into pieces.
#include <cstddef>
#include <cstdint>

#include "sources/trace_reader.h"

namespace {

struct Nowhere : stallscope::stream::Output {
  stallscope::Status append(std::span<const std::byte>) override { return stallscope::Done{}; }
  void truncate(std::uint64_t) override {}
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace stallscope::sources;
  if (size < 2) return 0;
  const auto formats = trace_formats();
  const auto bytes = std::as_bytes(std::span(data + 2, size - 2));
  const std::size_t cut = bytes.size() * data[1] / 256;
  auto stream = AccessStream::create(std::make_unique<Nowhere>(), {"fuzz"}, {});
  if (!stream) return 0;
  auto reader = formats[data[0] % formats.size()].make(**stream, "fuzz", 0);
  if (!reader->feed(bytes.first(cut)) || !reader->feed(bytes.subspan(cut))) return 0;
  if (!reader->finish()) return 0;
  (void)(*stream)->close();
  (void)(*stream)->areas();
  return 0;
}
