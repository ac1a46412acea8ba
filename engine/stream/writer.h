// SPDX-License-Identifier: Apache-2.0
// Writes the stream to disk as chunks. Single thread.
//
// Either append() whole stretches of the stream, or, when somebody else parses it already, be one
// of the sinks of that parse (on_block, on_record) with its code table; never both on one writer.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/result.h"
#include "stream/chunk.h"
#include "stream/chunk_output.h"
#include "stream/code_table.h"
#include "stream/codec.h"
#include "stream/codec_columns.h"

namespace stallscope::stream {

class TraceWriter {
 public:
  // Keeps a code table of its own.
  explicit TraceWriter(std::unique_ptr<Output> output,
                       std::uint32_t words_a_chunk = Encoder::kLimit);
  // As a sink beside others of one parse: `code` is that parse's table.
  TraceWriter(std::unique_ptr<Output> output, const CodeTable& code,
              std::uint32_t words_a_chunk = Encoder::kLimit);

  // Whole records and block executions. An error is either the disk's, which comes once and after
  // which everything is dropped (failed() says so), or that `words` is damaged: then what stood in
  // front of the damage is in the trace.
  Status append(std::span<const std::uint64_t> words);

  // The sink of stream::parse. What the disk does meanwhile is told by the next flush() or close(),
  // or by take_error().
  void on_block(std::uint32_t exit, const Exit& info, const std::uint64_t* addresses);
  Status on_record(unsigned tag, const std::uint64_t* words, std::uint32_t count);
  Status take_error();

  // Puts on disk whatever is not there yet; small chunks compress less, so not too often.
  Status flush();
  // A snapshot of the counters, one for each exit; supersedes the one before.
  Status counts(std::span<const std::uint64_t> executions);
  // Flushes and writes END. Nothing may be appended afterwards.
  Status close();

  bool failed() const { return appender_.failed(); }
  std::uint64_t bytes() const { return appender_.bytes(); }  // on disk
  const Totals& totals() const { return totals_; }           // as of the last chunk

 private:
  void cut();
  Status write_code();
  Status write_trace();

  CodeTable own_code_;
  const CodeTable& code_;
  ChunkAppender appender_;
  Packer packer_;
  Encoder encoder_;
  std::vector<std::uint64_t> blocks_;  // `block` records that no chunk has yet
  std::uint32_t words_a_chunk_;
  std::uint32_t thread_ = 0;        // that runs now
  std::uint32_t first_thread_ = 0;  // that ran where the current chunk began
  std::uint64_t first_clock_ = 0;
  std::uint64_t record_words_ = 0;  // in the current chunk
  Totals totals_;
  std::optional<Error> error_;
  bool closed_ = false;
};

}  // namespace stallscope::stream
