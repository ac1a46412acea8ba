// SPDX-License-Identifier: Apache-2.0
// A libFuzzer target for everything behind the checksums of a trace: chunk index, columns, decoder,
// code table, counters, checker. Its corpus is replayed by the engine's tests.
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "stream/check.h"
#include "stream/reader.h"

namespace {

using namespace stallscope;

// A few bytes may stand for millions of words; that is what they mean and no fault, but slow.
constexpr std::uint64_t kMostWords = 1 << 18;

// Touches every word that it is given, so that the sanitizers see a bad one.
struct Touch {
  std::uint64_t sum = 0;
  std::uint64_t words = 0;
  void on_block(std::uint32_t, const stream::Exit& info, const std::uint64_t* addresses) {
    for (std::uint32_t i = 0; i < info.operations; ++i) sum += addresses[i];
    words += 1 + info.operations;
  }
  Status on_record(unsigned, const std::uint64_t* at, std::uint32_t count) {
    for (std::uint32_t i = 0; i < count; ++i) sum += at[i];
    words += count;
    return Done{};
  }
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto bytes = std::as_bytes(std::span(data, size));
  auto reader = stream::TraceReader::open(stream::from_memory(bytes), "fuzz", {.checksums = false});
  if (!reader) return 0;
  std::uint64_t words = 0;
  for (const stream::ChunkEntry& entry : reader->chunks()) words += entry.header.words;
  if (words > kMostWords) return 0;
  for (unsigned mode : {SS_MODE_STREAM, SS_MODE_COUNT}) stream::check_trace(*reader, mode);
  Touch touch;
  const Status read = reader->for_each(touch);
  if (touch.words > words) std::abort();
  if (!reader->load_code()) return 0;
  for (std::size_t i = 0; i < reader->chunks().size(); ++i) {
    if (reader->chunks()[i].header.kind != static_cast<std::uint16_t>(stream::ChunkKind::trace))
      continue;
    // What can be read in a row can be read alone.
    if (!reader->read_chunk(i, touch) && read) std::abort();
  }
  return 0;
}
