// SPDX-License-Identifier: Apache-2.0
#include "stream/reader.h"

#include <cstring>

namespace stallscope::stream {

Result<TraceReader> TraceReader::open(const std::string& path, ReadOptions options,
                                      Damage* damage) {
  auto file = ChunkReader::open(path, options, damage);
  if (!file) return file.error();
  return TraceReader(std::move(*file));
}

Result<TraceReader> TraceReader::open(std::unique_ptr<Source> source, std::string name,
                                      ReadOptions options, Damage* damage) {
  auto file = ChunkReader::open(std::move(source), std::move(name), options, damage);
  if (!file) return file.error();
  return TraceReader(std::move(*file));
}

Status TraceReader::check_start(const ChunkEntry& entry, std::uint64_t clock) {
  if (entry.header.instructions == clock || !file_.checksums()) return Done{};
  return file_.corrupt(entry, "a chunk begins at another instruction than the one in front ended");
}

Status TraceReader::unpack_code(const ChunkEntry& entry) {
  if (entry.header.raw_bytes != entry.header.words * 8ULL)
    return file_.corrupt(entry, "a chunk's lengths do not fit each other");
  Column column;
  if (Status unpacked = file_.unpack(entry, std::span(&column, 1)); !unpacked) return unpacked;
  words_.resize(entry.header.words);
  if (!column.empty()) std::memcpy(words_.data(), column.data(), column.size());
  for (std::size_t at = 0; at < words_.size(); at += SS_HEAD_WORDS(words_[at]))
    if (SS_HEAD_TAG(words_[at]) != SS_BLOCK || SS_HEAD_WORDS(words_[at]) == 0)
      return file_.corrupt(entry, "a chunk of code holds something else");
  return Done{};
}

Status TraceReader::load_code() {
  code_ = {};
  predictor_ = {};
  struct Nothing {
    void on_block(std::uint32_t, const Exit&, const std::uint64_t*) {}
    Status on_record(unsigned, const std::uint64_t*, std::uint32_t) { return Done{}; }
  } nothing;
  Totals totals;
  for (const ChunkEntry& entry : chunks()) {
    if (entry.header.kind != static_cast<std::uint16_t>(ChunkKind::code)) continue;
    if (Status read = read_code(entry, nothing, totals); !read) return read;
  }
  return Done{};
}

Result<std::optional<std::vector<std::uint64_t>>> TraceReader::counts() {
  const ChunkEntry* newest = nullptr;
  for (const ChunkEntry& entry : chunks())
    if (entry.header.kind == static_cast<std::uint16_t>(ChunkKind::counts)) newest = &entry;
  if (newest == nullptr) return std::optional<std::vector<std::uint64_t>>();
  Column column;
  if (Status unpacked = file_.unpack(*newest, std::span(&column, 1)); !unpacked)
    return unpacked.error();
  if (newest->header.words > column.size())
    return file_.corrupt(*newest, "a chunk has fewer counters than it says");
  std::vector<std::uint64_t> counters(newest->header.words);
  Cursor in(column);
  std::uint64_t last = 0;
  for (std::uint64_t& count : counters) count = last += unzigzag(in.varint());
  if (!in.done()) return file_.corrupt(*newest, "a chunk's counters are damaged");
  return std::optional(std::move(counters));
}

Result<std::optional<Totals>> TraceReader::totals() {
  if (truncated() || chunks().empty()) return std::optional<Totals>();
  auto totals = file_.totals(chunks().back());
  if (!totals) return totals.error();
  return std::optional(*totals);
}

}  // namespace stallscope::stream
