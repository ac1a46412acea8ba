// SPDX-License-Identifier: Apache-2.0
#include "stream/writer.h"

#include <algorithm>

#include "stream/parser.h"

namespace stallscope::stream {
namespace {

ChunkHeader header_of(ChunkKind kind) {
  ChunkHeader header{};
  header.kind = static_cast<std::uint16_t>(kind);
  return header;
}

std::uint32_t total_size(std::span<const Column> columns) {
  std::size_t size = 0;
  for (Column column : columns) size += column.size();
  return static_cast<std::uint32_t>(size);
}

Column bytes_of(std::span<const std::uint64_t> words) {
  return Column(reinterpret_cast<const std::uint8_t*>(words.data()), words.size_bytes());
}

}  // namespace

TraceWriter::TraceWriter(std::unique_ptr<Output> output, std::uint32_t words_a_chunk)
    : TraceWriter(std::move(output), own_code_, words_a_chunk) {}

TraceWriter::TraceWriter(std::unique_ptr<Output> output, const CodeTable& code,
                         std::uint32_t words_a_chunk)
    : code_(code),
      appender_(std::move(output)),
      encoder_(code),
      words_a_chunk_(std::clamp<std::uint32_t>(words_a_chunk, 1, Encoder::kLimit)) {}

Status TraceWriter::append(std::span<const std::uint64_t> words) {
  Status parsed = parse(words, own_code_, *this);
  Status written = take_error();
  return parsed ? written : parsed;
}

void TraceWriter::on_block(std::uint32_t exit, const Exit& info, const std::uint64_t* addresses) {
  encoder_.on_block(exit, info, addresses);
  if (encoder_.words() >= words_a_chunk_) [[unlikely]]
    cut();
}

Status TraceWriter::on_record(unsigned tag, const std::uint64_t* words, std::uint32_t count) {
  if (count > kMaxRecordWords) return Error{"the stream has a record that is too long", "", ""};
  ++totals_.records[tag % Totals::kTags];
  if (tag == SS_BLOCK) {
    blocks_.insert(blocks_.end(), words, words + count);
    encoder_.code_grew();
    if (blocks_.size() >= Encoder::kLimit) cut();
    return Done{};
  }
  if (tag == SS_PROCESS_START || tag == SS_THREAD_SWITCH) thread_ = SS_HEAD_THREAD(words[0]);
  encoder_.on_record(tag, words, count);
  record_words_ += count;
  if (encoder_.words() >= words_a_chunk_) cut();
  return Done{};
}

Status TraceWriter::take_error() {
  if (!error_) return Done{};
  Error error = std::move(*error_);
  error_.reset();
  return error;
}

void TraceWriter::cut() {
  Status written = write_code();
  if (written) written = write_trace();
  if (!written && !error_) error_ = written.error();
}

Status TraceWriter::write_code() {
  if (blocks_.empty()) return Done{};
  const Column column = bytes_of(blocks_);
  auto payload = packer_.pack(std::span(&column, 1));
  if (!payload) return payload.error();
  ChunkHeader header = header_of(ChunkKind::code);
  header.raw_bytes = static_cast<std::uint32_t>(column.size());
  header.words = static_cast<std::uint32_t>(blocks_.size());
  header.thread = first_thread_;
  header.instructions = first_clock_;
  totals_.words += blocks_.size();
  blocks_.clear();
  return appender_.append(header, *payload);
}

Status TraceWriter::write_trace() {
  if (encoder_.words() == 0) return Done{};
  const auto columns = encoder_.finish();
  ChunkHeader header = header_of(ChunkKind::trace);
  header.raw_bytes = total_size(columns);
  header.words = encoder_.words();
  header.thread = first_thread_;
  header.instructions = first_clock_;
  header.executions = encoder_.executions();
  totals_.words += header.words;
  totals_.executions += header.executions;
  totals_.accesses += header.words - header.executions - record_words_;
  totals_.instructions += encoder_.instructions();
  first_thread_ = thread_;
  first_clock_ = encoder_.clock();
  record_words_ = 0;
  Status written = Done{};
  if (auto payload = failed() ? Result<std::span<const std::byte>>(std::span<const std::byte>())
                              : packer_.pack(columns);
      !payload)
    written = payload.error();
  else
    written = appender_.append(header, *payload);
  encoder_.begin(first_clock_);
  return written;
}

Status TraceWriter::flush() {
  cut();
  return take_error();
}

Status TraceWriter::counts(std::span<const std::uint64_t> executions) {
  if (executions.size() > kMaxChunkWords) return Error{"there are too many counters", "", ""};
  cut();
  std::vector<std::uint8_t> numbers(executions.size() * 10);
  std::uint8_t* at = numbers.data();
  std::uint64_t last = 0;
  for (std::uint64_t count : executions) {
    at = put_varint(at, zigzag(count - last));
    last = count;
  }
  const Column column(numbers.data(), at);
  ChunkHeader header = header_of(ChunkKind::counts);
  header.raw_bytes = static_cast<std::uint32_t>(column.size());
  header.words = static_cast<std::uint32_t>(executions.size());
  header.thread = first_thread_;
  header.instructions = first_clock_;
  Status written = Done{};
  if (auto payload = packer_.pack(std::span(&column, 1)); payload)
    written = appender_.append(header, *payload);
  else
    written = payload.error();
  if (!written && !error_) error_ = written.error();
  return take_error();
}

Status TraceWriter::close() {
  if (closed_) return take_error();
  closed_ = true;
  cut();
  if (error_) return take_error();
  ChunkHeader header = header_of(ChunkKind::end);
  header.raw_bytes = sizeof(Totals);
  header.thread = first_thread_;
  header.instructions = first_clock_;
  return appender_.append(header, std::as_bytes(std::span(&totals_, 1)));
}

}  // namespace stallscope::stream
