// SPDX-License-Identifier: Apache-2.0
#include "stream/values.h"

#include <algorithm>
#include <bit>

#include "stallscope_records.h"
#include "stream/reader.h"

namespace stallscope::stream {
namespace {

using Way = ValuePredictor::Way;
using values::codes;
using values::lengths;
using values::masks;
using values::plane;
using values::runs;

// A difference of values that have fewer than 64 bits, as a number around 0.
std::uint64_t signed_difference(std::uint64_t difference, std::uint64_t mask) {
  const int spare = std::countl_zero(mask);
  return static_cast<std::uint64_t>(static_cast<std::int64_t>(difference << spare) >> spare);
}

ChunkHeader header_of(ChunkKind kind) {
  ChunkHeader header{};
  header.kind = static_cast<std::uint16_t>(kind);
  return header;
}

}  // namespace

void ValuePredictor::begin(const CodeTable& code) {
  if (!begun_) {
    operations_.clear();
    memory_.assign(std::size_t{1} << kMemoryBits, 0);
    back_ = {};
    newest_ = 0;
    begun_ = true;
  }
  operations_.resize(code.operations.size());
}

ValueWriter::ValueWriter(std::unique_ptr<Output> output, const CodeTable& code, Extent extent,
                         std::uint32_t values_a_chunk)
    : code_(code),
      appender_(std::move(output)),
      extent_(extent),
      values_a_chunk_(std::clamp<std::uint32_t>(values_a_chunk, 1, kLimit)) {}

void ValueWriter::on_values(const Exit& info, const std::uint64_t* addresses,
                            const std::uint64_t* values, const std::uint8_t* kept) {
  for (std::uint32_t i = 0; i < info.operations; ++i) {
    if (addresses[i] == SS_NO_ADDRESS) continue;
    if (extent_ == Extent::all)
      put(info.first_operation + i, addresses[i], values[i]);
    else
      put_some(info.first_operation + i, addresses[i], values[i], kept ? kept[i] : 0);
    count_one();
  }
}

void ValueWriter::put_some(std::uint32_t operation, std::uint64_t address, std::uint64_t value,
                           std::uint8_t kept) {
  const std::uint8_t whole = ValuePredictor::whole(code_.operations[operation].size);
  const std::uint8_t mask =
      (kept & whole) == whole ? ValuePredictor::kWhole : static_cast<std::uint8_t>(kept & whole);
  if (mask != mask_) end_stretch();
  mask_ = mask;
  ++stretch_;
  if (mask == 0) return;
  std::uint64_t bits = 0;
  for (unsigned i = 0; i < 8; ++i)
    if (mask >> i & 1) bits |= std::uint64_t{0xff} << 8 * i;
  put(operation, address, value & bits);
}

void ValueWriter::end_stretch() {
  if (stretch_ == 0) return;
  std::uint8_t number[10];
  const std::uint8_t* end = put_varint(number, stretch_);
  columns_[masks].push_back(mask_);
  columns_[lengths].insert(columns_[lengths].end(), static_cast<const std::uint8_t*>(number), end);
  stretch_ = 0;
}

void ValueWriter::count_one() {
  if (++count_ >= values_a_chunk_) [[unlikely]]
    cut();
}

void ValueWriter::put(std::uint32_t operation, std::uint64_t address, std::uint64_t value) {
  const ValuePredictor::Place place = predictor_.place(code_, operation, address);
  value &= place.mask;
  if (predictor_.guess(place, place.operation.way) == value)
    ++run_;
  else
    differ(place, value);
  predictor_.learn(place, value);
}

void ValueWriter::differ(const ValuePredictor::Place& place, std::uint64_t value) {
  std::uint8_t number[10];
  const std::uint8_t* end = put_varint(number, run_);
  columns_[runs].insert(columns_[runs].end(), static_cast<const std::uint8_t*>(number), end);
  run_ = 0;
  for (unsigned way = 0; way < Way::kWays; ++way) {
    if (predictor_.guess(place, static_cast<Way>(way)) != value) continue;
    place.operation.way = static_cast<Way>(way);
    columns_[codes].push_back(static_cast<std::uint8_t>(way));
    return;
  }
  std::uint64_t rest = zigzag(signed_difference(value - place.operation.last, place.mask));
  const unsigned length = (static_cast<unsigned>(std::bit_width(rest)) + 7) / 8;
  columns_[codes].push_back(static_cast<std::uint8_t>(Way::kWays + length));
  for (unsigned k = 0; k < length; ++k, rest >>= 8)
    columns_[plane + k].push_back(static_cast<std::uint8_t>(rest));
}

void ValueWriter::cut() {
  if (count_ == 0) return;
  end_stretch();
  const bool some = extent_ == Extent::some;
  std::array<Column, values::kAllColumns> columns;
  ChunkHeader header = header_of(some ? ChunkKind::some_values : ChunkKind::values);
  for (unsigned i = 0; i < columns.size(); ++i) {
    columns[i] = columns_[i];
    header.raw_bytes += static_cast<std::uint32_t>(columns_[i].size());
  }
  header.words = count_;
  header.instructions = total_;
  Status written = Done{};
  const std::size_t used = some ? values::kAllColumns : values::columns;
  if (auto payload = packer_.pack(std::span(columns).first(used)); payload)
    written = appender_.append(header, *payload);
  else
    written = payload.error();
  if (!written && !error_) error_ = written.error();
  total_ += count_;
  count_ = 0;
  run_ = 0;
  for (auto& column : columns_) column.clear();
  predictor_.begin_chunk();
}

Status ValueWriter::take_error() {
  if (!error_) return Done{};
  Error error = std::move(*error_);
  error_.reset();
  return error;
}

Status ValueWriter::flush() {
  cut();
  return take_error();
}

Status ValueWriter::close() {
  if (closed_) return take_error();
  closed_ = true;
  cut();
  if (error_) return take_error();
  Totals totals;
  totals.accesses = total_;
  ChunkHeader header = header_of(ChunkKind::end);
  header.raw_bytes = sizeof totals;
  header.instructions = total_;
  return appender_.append(header, std::as_bytes(std::span(&totals, 1)));
}

Result<ValueReader> ValueReader::open(const std::string& path, ReadOptions options) {
  auto file = ChunkReader::open(path, options);
  if (!file) return file.error();
  return ValueReader(std::move(*file));
}

Result<ValueReader> ValueReader::open(std::unique_ptr<Source> source, std::string name,
                                      ReadOptions options) {
  auto file = ChunkReader::open(std::move(source), std::move(name), options);
  if (!file) return file.error();
  return ValueReader(std::move(*file));
}

bool ValueReader::fail(Error error) {
  ended_ = true;
  error_ = std::move(error);
  return false;
}

const std::uint64_t* ValueReader::read(const CodeTable& code, const Exit& info,
                                       const std::uint64_t* addresses) {
  if (values_.size() < info.operations) values_.resize(info.operations);
  if (known_.size() < info.operations) known_.resize(info.operations);
  for (std::uint32_t i = 0; i < info.operations; ++i) {
    values_[i] = known_[i] = 0;
    if (addresses[i] == SS_NO_ADDRESS) continue;
    if (!next(code, info.first_operation + i, addresses[i], values_[i], known_[i])) return nullptr;
  }
  return ended_ ? nullptr : values_.data();
}

bool ValueReader::next(const CodeTable& code, std::uint32_t operation, std::uint64_t address,
                       std::uint64_t& value, std::uint8_t& known) {
  if (left_ == 0 && !next_chunk()) return false;
  std::uint8_t mask = ValuePredictor::kWhole;
  if (some_ && !next_mask(mask))
    return fail(file_.corrupt(file_.chunks()[chunk_ - 1], "its masks are damaged"));
  --left_;
  ++count_;
  if (mask == 0) return true;
  ++kept_;
  known = mask & ValuePredictor::whole(code.operations[operation].size);
  const ValuePredictor::Place place = predictor_.place(code, operation, address);
  if (run_ > 0) {
    --run_;
    value = predictor_.guess(place, place.operation.way);
  } else if (!differs(place, value)) {
    return fail(file_.corrupt(file_.chunks()[chunk_ - 1], "its values are damaged"));
  }
  predictor_.learn(place, value);
  return true;
}

bool ValueReader::next_mask(std::uint8_t& mask) {
  if (stretch_ == 0) {
    mask_ = in_[masks].byte();
    stretch_ = in_[lengths].varint();
    if (in_[masks].bad || in_[lengths].bad || stretch_ == 0) return false;
  }
  --stretch_;
  mask = mask_;
  return true;
}

bool ValueReader::next_chunk() {
  if (ended_) return false;
  const auto& chunks = file_.chunks();
  for (const Cursor& cursor : in_)
    if (!cursor.done() || stretch_ != 0)
      return fail(file_.corrupt(chunks[chunk_ - 1], "it holds more than it says"));
  ended_ = chunk_ == chunks.size() ||
           chunks[chunk_].header.kind == static_cast<std::uint16_t>(ChunkKind::end);
  if (ended_) return false;
  const ChunkEntry& entry = chunks[chunk_++];
  some_ = entry.header.kind == static_cast<std::uint16_t>(ChunkKind::some_values);
  if ((!some_ && entry.header.kind != static_cast<std::uint16_t>(ChunkKind::values)) ||
      entry.header.words == 0 || entry.header.instructions != count_)
    return fail(file_.corrupt(entry, "a chunk is not one of values, or at the wrong place"));
  std::array<Column, values::kAllColumns> columns;
  const std::size_t used = some_ ? values::kAllColumns : values::columns;
  if (Status unpacked = file_.unpack(entry, std::span(columns).first(used)); !unpacked)
    return fail(unpacked.error());
  for (unsigned i = 0; i < in_.size(); ++i) in_[i] = Cursor(columns[i]);
  left_ = entry.header.words;
  // Behind the last code nothing says how many follow.
  run_ = in_[runs].at == in_[runs].end ? left_ : in_[runs].varint();
  predictor_.begin_chunk();
  return true;
}

// At a code; behind it begins the next run.
bool ValueReader::differs(const ValuePredictor::Place& place, std::uint64_t& value) {
  const std::uint8_t code = in_[codes].byte();
  if (in_[codes].bad || code > Way::kWays + 8) return false;
  if (code < Way::kWays) {
    place.operation.way = static_cast<Way>(code);
    value = predictor_.guess(place, place.operation.way);
  } else {
    std::uint64_t rest = 0;
    for (unsigned k = 0; k < static_cast<unsigned>(code - Way::kWays); ++k) {
      rest |= static_cast<std::uint64_t>(in_[plane + k].byte()) << (8 * k);
      if (in_[plane + k].bad) return false;
    }
    value = (place.operation.last + unzigzag(rest)) & place.mask;
  }
  run_ = in_[runs].at == in_[runs].end ? left_ : in_[runs].varint();
  return !in_[runs].bad;
}

Status ValueReader::end() {
  if (error_) return *error_;
  if (left_ == 0 && !ended_) next_chunk();
  if (error_) return *error_;
  if (file_.truncated()) return Done{};
  if (file_.chunks().empty() || left_ != 0 || !ended_)
    return Error{"there are more values than accesses", "",
                 "values and trace are not of one recording"};
  auto totals = file_.totals(file_.chunks().back());
  if (!totals) return totals.error();
  if (totals->accesses != count_)
    return file_.corrupt(file_.chunks().back(), "the totals differ from what the chunks hold");
  return Done{};
}

Result<std::uint64_t> check_values(const std::string& trace, const std::string& values) {
  auto reader = TraceReader::open(trace);
  if (!reader) return reader.error();
  auto opened = ValueReader::open(values);
  if (!opened) return opened.error();
  struct Sink {
    ValueReader& values;
    const CodeTable& code;
    bool all = true;
    void on_block(std::uint32_t, const Exit& info, const std::uint64_t* addresses) {
      all = all && values.read(code, info, addresses) != nullptr;
    }
    Status on_record(unsigned, const std::uint64_t*, std::uint32_t) { return Done{}; }
  } sink{*opened, reader->code()};
  if (Status read = reader->for_each(sink); !read) return read.error();
  if (Status ended = opened->end(); !ended && !reader->truncated()) return ended.error();
  if (!sink.all && !opened->truncated())
    return Error{"there are fewer values than accesses", "",
                 "values and trace are not of one recording"};
  return opened->kept();
}

}  // namespace stallscope::stream
