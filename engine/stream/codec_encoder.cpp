// SPDX-License-Identifier: Apache-2.0
#include <bit>

#include "stream/codec.h"

namespace stallscope::stream {

using namespace codec;

namespace {

// A chunk is cut once it has kLimit words, so the last block execution may go beyond.
constexpr std::size_t kMostWords = Encoder::kLimit + 4096 + 1;

// Bytes that a word of the stream can need in a column, at most.
constexpr std::size_t bytes_a_word(unsigned column) {
  switch (column) {
    case runs:
      return 4;
    case exits:
      return 5;
    default:
      return 1;
  }
}

}  // namespace

Encoder::Encoder(const CodeTable& code) : code_(code) {
  for (unsigned i = 0; i < rooms_.size(); ++i)
    rooms_[i] = std::make_unique_for_overwrite<std::uint8_t[]>((kMostWords + 16) * bytes_a_word(i));
  begin(0);
}

void Encoder::begin(std::uint64_t clock) {
  predictor_.begin_chunk(code_);
  for (unsigned i = 0; i < rooms_.size(); ++i) at_[i] = rooms_[i].get();
  records_.clear();
  fields_ = {};
  run_ = 0;
  clock_ = clock;
  instructions_ = 0;
  words_ = 0;
  executions_ = 0;
}

void Encoder::on_block(std::uint32_t exit, const Exit& info, const std::uint64_t* addresses) {
  words_ += 1 + info.operations;
  ++executions_;
  const std::uint32_t current = predictor_.current();
  bool as_expected = current != Predictor::kNoExit && predictor_.successors(current).first == exit;
  std::uint64_t* last = predictor_.last(info.first_operation);
  if (as_expected) {
    const std::uint64_t* stride = predictor_.stride(info.first_operation);
    std::uint64_t difference = 0;
    for (std::uint32_t i = 0; i < info.operations; ++i)
      difference |= (last[i] + stride[i]) ^ addresses[i];
    as_expected = difference == 0;
  }
  if (as_expected) {
    for (std::uint32_t i = 0; i < info.operations; ++i) last[i] = addresses[i];
    ++run_;
    predictor_.follow(exit);
  } else {
    differ(exit, info, addresses);
  }
  instructions_ += info.instructions;
  clock_ += info.instructions;
}

void Encoder::differ(std::uint32_t exit, const Exit& info, const std::uint64_t* addresses) {
  put_number(runs, run_);
  run_ = 0;
  std::uint8_t control = choose_way(exit);
  predictor_.touch(exit, code_);
  const std::uint32_t executions = predictor_.successors(exit).executions;
  if (put_surprises(info, addresses, executions)) control |= kSurprises;
  put(controls, control);
  predictor_.follow(exit);
}

Way Encoder::choose_way(std::uint32_t exit) {
  const std::uint32_t current = predictor_.current();
  if (current == Predictor::kNoExit) {
    put_number(exits, zigzag(exit));
    return literal;
  }
  Predictor::Successors& from = predictor_.successors(current);
  if (from.first == exit) return expected;
  if (from.second == exit) {
    Predictor::learn_second(from);
    return second;
  }
  Predictor::learn_other(from, exit);
  put_number(exits, zigzag(static_cast<std::uint64_t>(exit) - current));
  return literal;
}

// Masks are written only when there is a surprise, so they are taken back otherwise.
bool Encoder::put_surprises(const Exit& info, const std::uint64_t* addresses,
                            std::uint32_t executions) {
  std::uint8_t* const before = at_[masks];
  unsigned any = 0;
  for (std::uint32_t i = 0; i < info.operations; i += 8) {
    unsigned mask = 0;
    const std::uint32_t stop = std::min(i + 8, info.operations);
    for (std::uint32_t k = i; k < stop; ++k) {
      const std::uint32_t operation = info.first_operation + k;
      const std::uint64_t guess = *predictor_.last(operation) + *predictor_.stride(operation);
      if (guess == addresses[k]) {
        *predictor_.last(operation) = guess;
      } else {
        mask |= 1U << (k - i);
        put_surprise(operation, k, addresses[k], executions);
      }
    }
    put(masks, static_cast<std::uint8_t>(mask));
    any |= mask;
  }
  if (any == 0) at_[masks] = before;
  return any != 0;
}

Code Encoder::find_code(std::uint32_t operation, std::uint64_t base, std::uint64_t delta) const {
  if (delta == predictor_.last_surprise(operation)) return same_surprise;
  for (unsigned age = 0; age < Predictor::kRecent; ++age)
    if (delta == predictor_.recent(age)) return static_cast<Code>(recent + age);
  if (base + delta == predictor_.followed(operation, base)) return followed;
  const unsigned bits = std::bit_width(zigzag(delta) | 1);
  return static_cast<Code>(bytes + (bits + 7) / 8);
}

void Encoder::put_surprise(std::uint32_t operation, std::uint32_t index, std::uint64_t address,
                           std::uint32_t executions) {
  if (address == SS_NO_ADDRESS) {
    put(codes, no_address);
    return;
  }
  const std::uint64_t base = predictor_.base(operation, index);
  const std::uint64_t delta = address - base;
  const Code code = find_code(operation, base, delta);
  put(codes, code);
  if (code > bytes) {
    std::uint64_t value = zigzag(delta);
    for (unsigned k = 0; k < static_cast<unsigned>(code - bytes); ++k, value >>= 8)
      put(static_cast<ColumnName>(plane + k), static_cast<std::uint8_t>(value));
    predictor_.add_recent(delta);
  }
  predictor_.learn_address(operation, base, delta, executions);
}

void Encoder::on_record(unsigned tag, const std::uint64_t* words, std::uint32_t count) {
  put_number(runs, run_);
  run_ = 0;
  put(controls, record);
  words_ += count;
  const std::uint32_t counted = counted_words(tag, count);
  const std::size_t before = records_.size();
  records_.resize(before + 1 + 10 * (counted + 2) + 8ULL * (count - counted));
  std::uint8_t* at = records_.data() + before;
  *at++ = static_cast<std::uint8_t>(tag);
  at = put_varint(put_varint(at, count), SS_HEAD_THREAD(words[0]));
  at = put_varint(at, zigzag(words[1] - clock_));
  clock_ = words[1];
  std::uint64_t* fields = fields_.last[tag % Totals::kTags];
  for (std::uint32_t i = 2; i < counted; ++i) {
    at = put_varint(at, zigzag(words[i] - fields[i]));
    fields[i] = words[i];
  }
  const std::size_t rest = 8ULL * (count - counted);
  if (rest != 0) std::memcpy(at, words + counted, rest);
  records_.resize(static_cast<std::size_t>(at + rest - records_.data()));
}

std::span<const Column> Encoder::finish() {
  put_number(runs, run_);
  run_ = 0;
  put(controls, codec::finish);
  for (unsigned i = 0; i < rooms_.size(); ++i) columns_[i] = Column(rooms_[i].get(), at_[i]);
  columns_[records] = records_;
  return columns_;
}

}  // namespace stallscope::stream
