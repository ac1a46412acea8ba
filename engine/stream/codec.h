// SPDX-License-Identifier: Apache-2.0
// The payload of a TRACE chunk. A stretch of block executions that all go as expected
// (codec_predictor.h) costs one number, its length. Behind each stretch comes something else:
// a control byte that says how a block execution differs, or that a record follows. What it takes
// to tell the difference lies in columns of its own kind:
//
//   runs      varint: executions as expected in front of this control byte
//   controls  low bits: how the exit is given (Way); kSurprises: some address is not as expected
//   exits     varint: an exit counted from the current one, zigzag
//   masks     a bit for each operation whose address is not as expected, whole bytes
//   codes     a Code for each such operation
//   plane k   byte k of each literal (zigzag difference to Predictor::base)
//   records   tag, length, thread, then the words: `when` counted from the instructions executed,
//             fields from those of the last record of that kind, tails as they are
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <vector>

#include "base/result.h"
#include "stallscope_records.h"
#include "stallscope_tables.h"
#include "stream/chunk.h"
#include "stream/code_table.h"
#include "stream/codec_columns.h"
#include "stream/codec_predictor.h"

namespace stallscope::stream {

namespace codec {

enum ColumnName : unsigned {
  runs,
  controls,
  exits,
  masks,
  codes,
  plane,
  records = plane + 8,
  columns
};
enum Way : std::uint8_t { expected, second, literal, record, finish };
inline constexpr std::uint8_t kWays = 0x07;
inline constexpr std::uint8_t kSurprises = 0x08;

// How an unexpected address is given. Literals of n bytes are `bytes + n`.
enum Code : std::uint8_t {
  same_surprise,  // moved as at its last surprise
  recent,         // ... as one of the last literals, + age
  followed = recent + Predictor::kRecent,
  no_address,
  bytes,
};

// The fields of the last record of each kind, from which the next one's are counted.
struct Fields {
  static constexpr unsigned kMax = 8;
  std::uint64_t last[Totals::kTags][kMax] = {};
};

// How many of a record's words are counted from Fields.
inline std::uint32_t counted_words(unsigned tag, std::uint32_t count) {
  const unsigned shape = record_shape(tag).words;
  const unsigned fields = shape < Fields::kMax ? shape : Fields::kMax;
  return count < fields ? count : fields;
}

}  // namespace codec

// Turns block executions and records into the columns of one chunk. The caller cuts chunks: it
// calls finish() when words() has reached a limit of at most kLimit, and then begin().
class Encoder {
 public:
  static constexpr std::uint32_t kLimit = 1U << 20;

  // `code` is the table that the executions refer to; it may grow between calls.
  explicit Encoder(const CodeTable& code);

  // `clock` is the number of instructions executed before the chunk.
  void begin(std::uint64_t clock);
  void on_block(std::uint32_t exit, const Exit& info, const std::uint64_t* addresses);
  // At most kMaxRecordWords; not for `block` records, which go into CODE chunks.
  void on_record(unsigned tag, const std::uint64_t* words, std::uint32_t count);
  // The columns, valid until the next begin().
  std::span<const Column> finish();

  void code_grew() { predictor_.grow(code_); }
  std::uint32_t words() const { return words_; }
  std::uint32_t executions() const { return executions_; }
  std::uint64_t instructions() const { return instructions_; }  // of the executions in this chunk
  std::uint64_t clock() const { return clock_; }

 private:
  void put(codec::ColumnName column, std::uint8_t byte) { *at_[column]++ = byte; }
  void put_number(codec::ColumnName column, std::uint64_t value) {
    at_[column] = put_varint(at_[column], value);
  }
  void differ(std::uint32_t exit, const Exit& info, const std::uint64_t* addresses);
  codec::Way choose_way(std::uint32_t exit);
  bool put_surprises(const Exit& info, const std::uint64_t* addresses, std::uint32_t executions);
  void put_surprise(std::uint32_t operation, std::uint32_t index, std::uint64_t address,
                    std::uint32_t executions);
  codec::Code find_code(std::uint32_t operation, std::uint64_t base, std::uint64_t delta) const;

  const CodeTable& code_;
  Predictor predictor_;
  std::array<std::unique_ptr<std::uint8_t[]>, codec::records> rooms_;
  std::array<std::uint8_t*, codec::records> at_{};
  std::vector<std::uint8_t> records_;
  std::array<Column, codec::columns> columns_;
  codec::Fields fields_;
  std::uint64_t run_ = 0;
  std::uint64_t clock_ = 0;
  std::uint64_t instructions_ = 0;
  std::uint32_t words_ = 0;
  std::uint32_t executions_ = 0;
};

// Undoes Encoder. Trusts nothing: whatever the columns hold, it ends after at most header.words
// words, with an error or with exactly as many as the header says.
class Decoder {
 public:
  // The table must hold every exit that the chunk names; one that it does not hold is an error.
  Decoder(const ChunkHeader& header, std::span<const Column> columns, const CodeTable& code,
          Predictor& predictor);

  // The sink is that of stream::parse. It may not change the code table.
  template <typename Sink>
  Status run(Sink& sink);

  std::uint64_t executions() const { return executions_; }
  std::uint64_t instructions() const { return instructions_; }
  std::uint64_t clock() const { return clock_; }  // behind the last word

 private:
  template <typename Sink>
  bool as_expected(std::uint64_t run, Sink& sink);
  // Both give false for damage, with why_ set.
  bool read_execution(std::uint8_t control);
  bool read_record();
  bool read_exit(codec::Way way, std::uint32_t& exit);
  bool read_surprises(const Exit& info, std::uint32_t executions);
  void read_surprise(const Exit& info, std::uint32_t index, std::uint32_t executions);
  bool take(std::uint64_t words) {
    if (words > left_) [[unlikely]]
      return fail("it holds more words than it says");
    left_ -= words;
    return true;
  }
  bool fail(const char* why) {
    why_ = why;
    return false;
  }
  bool exhausted() const;
  Status damaged() const { return Error{"a chunk of the trace is damaged", why_, ""}; }

  const CodeTable& code_;
  Predictor& predictor_;
  std::array<Cursor, codec::columns> in_;
  codec::Fields fields_;
  std::vector<std::uint64_t> scratch_;        // a record, or addresses with some missing
  const std::uint64_t* addresses_ = nullptr;  // of the execution just read
  std::uint64_t left_;
  std::uint64_t clock_;
  std::uint64_t executions_ = 0;
  std::uint64_t instructions_ = 0;
  const char* why_ = "it ends too early";
};

template <typename Sink>
bool Decoder::as_expected(std::uint64_t run, Sink& sink) {
  if (run == 0) return true;
  std::uint32_t exit = predictor_.current();
  if (exit == Predictor::kNoExit) return fail("it begins with nothing to follow");
  if (run > left_) return fail("it holds more words than it says");
  std::uint64_t instructions = 0;
  for (std::uint64_t i = 0; i < run; ++i) {
    exit = predictor_.successors(exit).first;
    const Exit& info = code_.exits[exit];
    if (!take(1 + info.operations)) return false;
    std::uint64_t* last = predictor_.last(info.first_operation);
    const std::uint64_t* stride = predictor_.stride(info.first_operation);
    for (std::uint32_t k = 0; k < info.operations; ++k) last[k] += stride[k];
    predictor_.follow(exit);
    instructions += info.instructions;
    sink.on_block(exit, info, last);
  }
  executions_ += run;
  instructions_ += instructions;
  clock_ += instructions;
  return true;
}

template <typename Sink>
Status Decoder::run(Sink& sink) {
  for (;;) {
    if (!as_expected(in_[codec::runs].varint(), sink)) return damaged();
    const std::uint8_t control = in_[codec::controls].byte();
    const auto way = static_cast<codec::Way>(control & codec::kWays);
    if (in_[codec::controls].bad) return damaged();
    if (way == codec::finish) break;
    if (way == codec::record) {
      if (!read_record()) return damaged();
      const auto count = static_cast<std::uint32_t>(scratch_.size());
      if (Status taken = sink.on_record(SS_HEAD_TAG(scratch_[0]), scratch_.data(), count); !taken)
        return taken;
      continue;
    }
    if (!read_execution(control)) return damaged();
    const std::uint32_t exit = predictor_.current();
    sink.on_block(exit, code_.exits[exit], addresses_);
  }
  if (!exhausted()) return damaged();
  return Done{};
}

}  // namespace stallscope::stream
