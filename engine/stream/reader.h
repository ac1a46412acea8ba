// SPDX-License-Identifier: Apache-2.0
// Reads what TraceWriter wrote. Single thread; several readers may read one file.
//
// A file that is cut off is read up to there and truncated() says so. Every other damage is an
// error that names the byte; nothing of a chunk whose checksum is wrong reaches the sink.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "stream/chunk.h"
#include "stream/chunk_reader.h"
#include "stream/chunk_source.h"
#include "stream/code_table.h"
#include "stream/codec.h"
#include "stream/codec_columns.h"
#include "stream/parser.h"

namespace stallscope::stream {

class TraceReader {
 public:
  // Reads the headers. `damage`, when given, says which kind of damage an error is about.
  static Result<TraceReader> open(const std::string& path, ReadOptions options = {},
                                  Damage* damage = nullptr);
  static Result<TraceReader> open(std::unique_ptr<Source> source, std::string name,
                                  ReadOptions options = {}, Damage* damage = nullptr);

  bool truncated() const { return file_.truncated(); }
  std::uint64_t truncated_at() const { return file_.truncated_at(); }
  // Of the last error.
  const Damage& damage() const { return file_.damage(); }

  const std::vector<ChunkEntry>& chunks() const { return file_.chunks(); }
  // Grows while reading. A sink may keep a reference as long as the reader is not moved.
  const CodeTable& code() const { return code_; }

  // Everything in its order, `block` records moved in front of the chunk that needs them; begins
  // with an empty code table. The totals in END are compared with what came. Sink: see parser.h.
  template <typename Sink>
  Status for_each(Sink& sink);

  // The whole code table without the rest, so that any TRACE chunk can be read alone.
  Status load_code();
  // One TRACE chunk, number `chunk` of chunks(). Needs load_code() or a for_each() before.
  template <typename Sink>
  Status read_chunk(std::size_t chunk, Sink& sink);

  // How often each exit was taken, by the newest COUNTS chunk; nothing when there is none.
  Result<std::optional<std::vector<std::uint64_t>>> counts();
  // What END says; nothing when the file is cut off.
  Result<std::optional<Totals>> totals();

 private:
  explicit TraceReader(ChunkReader file) : file_(std::move(file)) {}

  Status unpack_code(const ChunkEntry& entry);  // into words_
  Status check_start(const ChunkEntry& entry, std::uint64_t clock);

  template <typename Sink>
  Status read_code(const ChunkEntry& entry, Sink& sink, Totals& totals);
  template <typename Sink>
  Status read_trace(const ChunkEntry& entry, Sink& sink, Totals& totals, std::uint64_t& clock);

  ChunkReader file_;
  CodeTable code_;
  Predictor predictor_;
  std::vector<std::uint64_t> words_;
};

namespace reading {

// Passes everything on, counts records and their words, and remembers whether it was the sink that
// refused: its error is not the file's.
template <typename Sink>
struct Counting {
  Sink& sink;
  Totals& totals;
  std::uint64_t record_words = 0;
  bool refused = false;

  void on_block(std::uint32_t exit, const Exit& info, const std::uint64_t* addresses) {
    sink.on_block(exit, info, addresses);
  }
  Status on_record(unsigned tag, const std::uint64_t* words, std::uint32_t count) {
    ++totals.records[tag % Totals::kTags];
    record_words += count;
    Status taken = sink.on_record(tag, words, count);
    refused = !taken;
    return taken;
  }
};

}  // namespace reading

template <typename Sink>
Status TraceReader::read_code(const ChunkEntry& entry, Sink& sink, Totals& totals) {
  if (Status unpacked = unpack_code(entry); !unpacked) return unpacked;
  reading::Counting<Sink> counting{sink, totals};
  Status parsed = parse(std::span<const std::uint64_t>(words_), code_, counting);
  if (!parsed) return counting.refused ? parsed : file_.located(entry, parsed);
  totals.words += entry.header.words;
  return Done{};
}

template <typename Sink>
Status TraceReader::read_trace(const ChunkEntry& entry, Sink& sink, Totals& totals,
                               std::uint64_t& clock) {
  std::array<Column, codec::columns> columns;
  if (Status unpacked = file_.unpack(entry, columns); !unpacked) return unpacked;
  reading::Counting<Sink> counting{sink, totals};
  Decoder decoder(entry.header, columns, code_, predictor_);
  Status decoded = decoder.run(counting);
  if (!decoded) return counting.refused ? decoded : file_.located(entry, decoded);
  if (decoder.executions() != entry.header.executions)
    return file_.corrupt(entry, "a chunk holds fewer block executions than it says");
  totals.words += entry.header.words;
  totals.executions += decoder.executions();
  totals.accesses += entry.header.words - decoder.executions() - counting.record_words;
  totals.instructions += decoder.instructions();
  clock = decoder.clock();
  return Done{};
}

template <typename Sink>
Status TraceReader::read_chunk(std::size_t chunk, Sink& sink) {
  Totals totals;
  std::uint64_t clock = 0;
  return read_trace(file_.chunks()[chunk], sink, totals, clock);
}

template <typename Sink>
Status TraceReader::for_each(Sink& sink) {
  code_ = {};
  predictor_ = {};
  Totals seen;
  std::uint64_t clock = 0;
  for (const ChunkEntry& entry : file_.chunks()) {
    if (Status start = check_start(entry, clock); !start) return start;
    switch (static_cast<ChunkKind>(entry.header.kind)) {
      case ChunkKind::code:
        if (Status read = read_code(entry, sink, seen); !read) return read;
        break;
      case ChunkKind::trace:
        if (Status read = read_trace(entry, sink, seen, clock); !read) return read;
        break;
      case ChunkKind::counts:
        // Not delivered, but checked like the rest: all or an error.
        if (auto bytes = file_.payload(entry); !bytes) return bytes.error();
        break;
      case ChunkKind::values:
      case ChunkKind::some_values:
        return file_.corrupt(entry, "a chunk of values stands in a trace");
      case ChunkKind::end: {
        auto told = file_.totals(entry);
        if (!told) return told.error();
        if (*told != seen)
          return file_.corrupt(entry, "the totals differ from what the chunks hold");
      }
    }
  }
  return Done{};
}

}  // namespace stallscope::stream
