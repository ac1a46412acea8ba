// SPDX-License-Identifier: Apache-2.0
// What the accesses of a trace read and wrote, in a file of its own beside it (`values.ss`), so
// that the trace is the same with it and without. One value for each access that happened, in the
// order of the trace: its first 8, 4, 2 or 1 bytes, as many as it has; of what reads and writes the
// value afterwards. A prefetch has the value 0.
//
// Where only the values of some memory were asked for, each access has a mask too: a bit for each
// byte that is kept, the first the lowest. The other bytes are 0 here, and nothing is expected of
// what they were: they never reach the file.
//
// A VALUES chunk has columns as a TRACE chunk has (codec.h). A stretch of values that all go as
// expected costs one number:
//
//   runs      varint: values as expected in front of this code
//   codes     the Way that would have been right, or kWays + bytes of a literal
//   plane k   byte k of each literal (zigzag difference to the operation's last value)
//
// A SOME_VALUES chunk has two more, for stretches of accesses whose masks are the same; what is
// kept whole is kWhole however long it is, and accesses of which nothing is kept have no value:
//
//   masks     of the stretch
//   lengths   varint: accesses in it
//
// Writer and reader are told of every block execution of the trace, in its order. Nothing is
// expected across chunks. Single thread.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "stream/chunk_output.h"
#include "stream/chunk_reader.h"
#include "stream/code_table.h"
#include "stream/codec_columns.h"

namespace stallscope::stream {

// What both expect, so that every rule stands here once.
class ValuePredictor {
 public:
  static constexpr unsigned kBack = 4;
  enum Way : std::uint8_t {
    stride,  // the operation's last value and what it grew by
    memory,  // what was last read or written there
    back,    // the last value of all, + age
    kWays = back + kBack
  };
  struct Operation {
    std::uint64_t last = 0, stride = 0, delta = 0;
    Way way = memory;  // that was right last
  };
  // One access.
  struct Place {
    Operation& operation;
    std::uint64_t& memory;
    std::uint64_t mask;  // bits that the value has
  };

  void begin_chunk() { begun_ = false; }
  Place place(const CodeTable& code, std::uint32_t operation, std::uint64_t address) {
    if (!begun_ || operation >= operations_.size()) [[unlikely]]
      begin(code);
    return {operations_[operation], memory_[slot(address)], mask(code.operations[operation].size)};
  }
  static constexpr std::uint8_t kWhole = 0xff;
  // The mask of all the bytes that a value has.
  static std::uint8_t whole(std::uint32_t size) {
    return size >= 8 ? 0xff : size >= 4 ? 0xf : size >= 2 ? 3 : 1;
  }
  std::uint64_t guess(const Place& place, Way way) const {
    if (way == memory) return place.memory & place.mask;
    if (way == stride) return (place.operation.last + place.operation.stride) & place.mask;
    return back_[(newest_ - (way - back)) % kBack] & place.mask;
  }
  void learn(const Place& place, std::uint64_t value) {
    Operation& operation = place.operation;
    const std::uint64_t delta = (value - operation.last) & place.mask;
    if (delta == operation.delta) operation.stride = delta;
    operation.delta = delta;
    operation.last = place.memory = value;
    back_[++newest_ % kBack] = value;
  }

 private:
  static constexpr unsigned kMemoryBits = 16;
  static std::uint32_t slot(std::uint64_t address) {
    return static_cast<std::uint32_t>(address * 0x9E3779B97F4A7C15 >> (64 - kMemoryBits));
  }
  static std::uint64_t mask(std::uint32_t size) {
    const unsigned bytes = size >= 8 ? 8 : size >= 4 ? 4 : size >= 2 ? 2 : 1;
    return ~std::uint64_t{0} >> (64 - 8 * bytes);
  }
  void begin(const CodeTable& code);

  bool begun_ = false;
  std::vector<Operation> operations_;
  std::vector<std::uint64_t> memory_;
  std::array<std::uint64_t, kBack> back_{};
  unsigned newest_ = 0;
};

namespace values {
enum ColumnName : unsigned { runs, codes, plane, columns = plane + 8, masks = columns, lengths };
inline constexpr unsigned kAllColumns = lengths + 1;
}  // namespace values

class ValueWriter {
 public:
  static constexpr std::uint32_t kLimit = 1U << 20;  // values of a chunk

  enum class Extent : bool { all, some };

  // `code` is the table of the parse that on_values comes from.
  ValueWriter(std::unique_ptr<Output> output, const CodeTable& code, Extent extent = Extent::all,
              std::uint32_t values_a_chunk = kLimit);

  // `kept`: a mask for each operation, where only some bytes are.
  void on_values(const Exit& info, const std::uint64_t* addresses, const std::uint64_t* values,
                 const std::uint8_t* kept = nullptr);
  // As those of TraceWriter.
  Status take_error();
  Status flush();
  Status close();
  std::uint64_t bytes() const { return appender_.bytes(); }

 private:
  void put(std::uint32_t operation, std::uint64_t address, std::uint64_t value);
  void put_some(std::uint32_t operation, std::uint64_t address, std::uint64_t value,
                std::uint8_t kept);
  void end_stretch();
  void count_one();
  void differ(const ValuePredictor::Place& place, std::uint64_t value);
  void cut();

  const CodeTable& code_;
  ChunkAppender appender_;
  Packer packer_;
  ValuePredictor predictor_;
  std::array<std::vector<std::uint8_t>, values::kAllColumns> columns_;
  Extent extent_;
  std::uint32_t values_a_chunk_;
  std::uint32_t count_ = 0;  // accesses in this chunk
  std::uint8_t mask_ = 0;    // of the stretch at hand
  std::uint64_t stretch_ = 0;
  std::uint64_t run_ = 0;
  std::uint64_t total_ = 0;
  std::optional<Error> error_;
  bool closed_ = false;
};

class ValueReader {
 public:
  static Result<ValueReader> open(const std::string& path, ReadOptions options = {});
  static Result<ValueReader> open(std::unique_ptr<Source> source, std::string name,
                                  ReadOptions options = {});

  // The values of the next block execution, one for each operation, 0 for what did not happen;
  // valid until the next call. Nothing where the values have ended or are damaged: end() says
  // which.
  const std::uint64_t* read(const CodeTable& code, const Exit& info,
                            const std::uint64_t* addresses);
  // Of the values that read() gave: the bytes of each that are known, a bit each.
  const std::uint8_t* known() const { return known_.data(); }
  // After the last block execution: whether all values were right and none is left. A file that is
  // cut off ends early, and that is no error.
  Status end();
  bool truncated() const { return file_.truncated(); }
  std::uint64_t count() const { return count_; }  // accesses so far
  std::uint64_t kept() const { return kept_; }    // of these, ones of which something is known

 private:
  explicit ValueReader(ChunkReader file) : file_(std::move(file)) {}
  bool next(const CodeTable& code, std::uint32_t operation, std::uint64_t address,
            std::uint64_t& value, std::uint8_t& known);
  bool next_mask(std::uint8_t& mask);
  bool next_chunk();
  bool differs(const ValuePredictor::Place& place, std::uint64_t& value);
  bool fail(Error error);

  ChunkReader file_;
  std::size_t chunk_ = 0;  // that comes next
  ValuePredictor predictor_;
  std::array<Cursor, values::kAllColumns> in_;
  std::uint32_t left_ = 0;  // accesses in this chunk
  bool some_ = false;       // it has masks
  std::uint8_t mask_ = 0;   // of the stretch at hand
  std::uint64_t stretch_ = 0;
  std::uint64_t run_ = 0;
  std::uint64_t count_ = 0, kept_ = 0;
  std::vector<std::uint64_t> values_ = std::vector<std::uint64_t>(64);  // never without an address
  std::vector<std::uint8_t> known_ = std::vector<std::uint8_t>(64);
  bool ended_ = false;
  std::optional<Error> error_;
};

// Reads both to their ends: how many accesses have a value, or a part of one. An error when they do
// not fit each other.
Result<std::uint64_t> check_values(const std::string& trace, const std::string& values);

}  // namespace stallscope::stream
