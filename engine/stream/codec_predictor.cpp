// SPDX-License-Identifier: Apache-2.0
#include "stream/codec_predictor.h"

#include <algorithm>

namespace stallscope::stream {

void Predictor::begin_chunk(const CodeTable& code) {
  grow(code);
  ++stamp_;
  current_ = kNoExit;
  recent_ = {};
  newest_ = 0;
  anchor_ = 0;
  if (followed_used_ < kFollowedListed && !followed_.empty()) {
    for (std::uint32_t i = 0; i < followed_used_; ++i) followed_[followed_list_[i]] = 0;
  } else {
    followed_.assign(std::size_t{1} << kFollowedBits, 0);
  }
  followed_used_ = 0;
}

void Predictor::grow(const CodeTable& code) {
  exit_stamp_.resize(code.exits.size());
  successors_.resize(code.exits.size());
  block_stamp_.resize(code.blocks.size());
  last_.resize(code.operations.size());
  stride_.resize(code.operations.size());
  surprises_.resize(code.operations.size());
}

void Predictor::wake(std::uint32_t exit, const CodeTable& code) {
  exit_stamp_[exit] = stamp_;
  successors_[exit] = {exit, exit, 0, 0};  // a loop is as good a guess as any, and it is awake
  const std::uint32_t number = code.exits[exit].block;
  if (block_stamp_[number] == stamp_) return;
  block_stamp_[number] = stamp_;
  const Block& block = code.blocks[number];
  std::fill_n(last_.begin() + block.first_operation, block.operations, 0);
  std::fill_n(stride_.begin() + block.first_operation, block.operations, 0);
  std::fill_n(surprises_.begin() + block.first_operation, block.operations, Surprise{0, 0});
}

void Predictor::learn_second(Successors& from) {
  if (from.surprised + 1 == from.executions) std::swap(from.first, from.second);
  from.surprised = from.executions;
}

void Predictor::learn_other(Successors& from, std::uint32_t exit) {
  if (from.executions == 1)
    from.first = exit;
  else
    from.second = exit;
  from.surprised = from.executions;
}

}  // namespace stallscope::stream
