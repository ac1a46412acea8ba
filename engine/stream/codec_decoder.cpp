// SPDX-License-Identifier: Apache-2.0
#include <bit>

#include "stream/codec.h"

namespace stallscope::stream {

using namespace codec;

Decoder::Decoder(const ChunkHeader& header, std::span<const Column> columns, const CodeTable& code,
                 Predictor& predictor)
    : code_(code), predictor_(predictor), left_(header.words), clock_(header.instructions) {
  for (unsigned i = 0; i < in_.size(); ++i) in_[i] = Cursor(columns[i]);
  predictor_.begin_chunk(code_);
}

bool Decoder::exhausted() const {
  if (left_ != 0) return false;
  for (const Cursor& cursor : in_)
    if (!cursor.done()) return false;
  return true;
}

bool Decoder::read_exit(Way way, std::uint32_t& exit) {
  const std::uint32_t current = predictor_.current();
  if (way == literal) {
    const std::uint64_t origin = current == Predictor::kNoExit ? 0 : current;
    const std::uint64_t number = origin + unzigzag(in_[exits].varint());
    if (number >= code_.exits.size()) return fail("it names a block that was never defined");
    exit = static_cast<std::uint32_t>(number);
    if (current != Predictor::kNoExit) Predictor::learn_other(predictor_.successors(current), exit);
    predictor_.touch(exit, code_);
    return true;
  }
  if (way > second || current == Predictor::kNoExit) return fail("a control byte is wrong");
  Predictor::Successors& from = predictor_.successors(current);
  exit = way == expected ? from.first : from.second;
  if (way == second) Predictor::learn_second(from);
  return true;
}

bool Decoder::read_execution(std::uint8_t control) {
  std::uint32_t exit = 0;
  if (!read_exit(static_cast<Way>(control & kWays), exit)) return false;
  const Exit& info = code_.exits[exit];
  if (!take(1 + info.operations)) return false;
  const std::uint32_t executions = predictor_.successors(exit).executions;
  predictor_.follow(exit);
  ++executions_;
  instructions_ += info.instructions;
  clock_ += info.instructions;
  if ((control & kSurprises) != 0) return read_surprises(info, executions);
  std::uint64_t* last = predictor_.last(info.first_operation);
  const std::uint64_t* stride = predictor_.stride(info.first_operation);
  for (std::uint32_t i = 0; i < info.operations; ++i) last[i] += stride[i];
  addresses_ = last;
  return true;
}

bool Decoder::read_surprises(const Exit& info, std::uint32_t executions) {
  std::uint64_t* last = predictor_.last(info.first_operation);
  const std::uint64_t* stride = predictor_.stride(info.first_operation);
  addresses_ = last;
  for (std::uint32_t i = 0; i < info.operations; i += 8) {
    const unsigned mask = in_[masks].byte();
    const std::uint32_t stop = std::min(i + 8, info.operations);
    if (mask >> (stop - i) != 0) return fail("a mask is too long");
    for (std::uint32_t k = i; k < stop; ++k) {
      if ((mask >> (k - i) & 1) == 0)
        last[k] += stride[k];
      else
        read_surprise(info, k, executions);
    }
  }
  if (addresses_ != last)
    for (std::uint32_t k = 0; k < info.operations; ++k)
      if (scratch_[k] != SS_NO_ADDRESS) scratch_[k] = last[k];
  return !in_[codes].bad && !in_[masks].bad;
}

void Decoder::read_surprise(const Exit& info, std::uint32_t index, std::uint32_t executions) {
  const std::uint32_t operation = info.first_operation + index;
  const std::uint8_t code = in_[codes].byte();
  if (code == no_address) {
    if (addresses_ != scratch_.data()) {
      scratch_.assign(info.operations, 0);
      addresses_ = scratch_.data();
    }
    scratch_[index] = SS_NO_ADDRESS;
    return;
  }
  const std::uint64_t base = predictor_.base(operation, index);
  std::uint64_t delta = 0;
  if (code == same_surprise) {
    delta = predictor_.last_surprise(operation);
  } else if (code < followed) {
    delta = predictor_.recent(code - recent);
  } else if (code == followed) {
    delta = predictor_.followed(operation, base) - base;
  } else {
    const unsigned length = code - codec::bytes;
    if (length == 0 || length > 8) {
      in_[codes].bad = true;
      return;
    }
    std::uint64_t value = 0;
    for (unsigned k = 0; k < length; ++k)
      value |= static_cast<std::uint64_t>(in_[plane + k].byte()) << (8 * k);
    delta = unzigzag(value);
    predictor_.add_recent(delta);
  }
  predictor_.learn_address(operation, base, delta, executions);
}

bool Decoder::read_record() {
  Cursor& in = in_[records];
  const unsigned tag = in.byte();
  const std::uint64_t count = in.varint();
  const std::uint64_t thread = in.varint();
  if (record_shape(tag).words == 0 || tag == SS_BLOCK || count < 2 || count > kMaxRecordWords ||
      thread > 0xffffffff)
    return fail("a record is wrong");
  if (!take(count)) return false;
  const std::uint32_t counted = counted_words(tag, static_cast<std::uint32_t>(count));
  const std::uint64_t rest = 8 * (count - counted);
  if (rest > static_cast<std::uint64_t>(in.end - in.at)) return fail("a record is too long");
  scratch_.resize(count);
  scratch_[0] = SS_HEAD(tag, count, thread);
  clock_ += unzigzag(in.varint());
  scratch_[1] = clock_;
  std::uint64_t* fields = fields_.last[tag % Totals::kTags];
  for (std::uint32_t i = 2; i < counted; ++i) scratch_[i] = fields[i] += unzigzag(in.varint());
  if (rest > static_cast<std::uint64_t>(in.end - in.at)) return fail("a record is too long");
  if (rest != 0) std::memcpy(scratch_.data() + counted, in.at, rest);
  in.at += rest;
  return !in.bad;
}

}  // namespace stallscope::stream
