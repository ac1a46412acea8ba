// SPDX-License-Identifier: Apache-2.0
// A libFuzzer target for perf.data files: header, features, records, order, compression.
#include <cstddef>
#include <cstdint>

#include "sources/perf_import.h"
#include "sources/perf_samples.h"

namespace {

using namespace stallscope;

constexpr std::uint64_t kMostRecords = 1 << 14;

// Touches every text and array of a record, so that the sanitizers see a bad one.
struct Touch : sources::SampleCollector {
  std::uint64_t sum = 0;
  std::uint64_t records = 0;
  void words(const sources::Words& words) {
    for (std::size_t i = 0; i < words.size(); ++i) sum += words[i];
  }
  void bytes(std::span<const std::byte> bytes) {
    for (const std::byte byte : bytes) sum += static_cast<unsigned>(byte);
  }
  Status on_event(const sources::Event& record, const sources::PerfEvent* event) override {
    // A few packed bytes may stand for millions of records; that is no fault, but slow.
    if (++records > kMostRecords) return Error{"enough", "", ""};
    if (const auto* sample = std::get_if<sources::Sample>(&record)) {
      words(sample->callchain);
      words(sample->branches);
      words(sample->regs_user.values);
      words(sample->regs_intr.values);
      bytes(sample->raw);
      bytes(sample->stack_user);
      for (unsigned bit = 0; bit < 70; ++bit) {
        std::uint64_t value = 0;
        if (sample->regs_user.get(bit, value)) sum += value;
      }
    }
    if (const auto* mapped = std::get_if<sources::Mapped>(&record)) {
      bytes(std::as_bytes(std::span(mapped->path)));
      bytes(mapped->build_id);
    }
    return SampleCollector::on_event(record, event);
  }
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  auto file =
      sources::PerfData::open(stream::from_memory(std::as_bytes(std::span(data, size))), "fuzz");
  if (!file) return 0;
  Touch touch;
  (void)file->read(touch);
  if (touch.records > kMostRecords) return 0;
  // The same as a recording: no file of this machine has the build ids that are made up here.
  const auto open = [&] {
    return sources::PerfData::open(stream::from_memory(std::as_bytes(std::span(data, size))), "");
  };
  symbols::SymbolCache symbols;
  auto import = sources::PerfImport::read(std::move(*open()), std::move(*open()), symbols);
  if (!import) return 0;
  for (const auto& image : (*import)->tree().images()) (void)image->tables();
  return 0;
}
