// SPDX-License-Identifier: Apache-2.0
// What encoder and decoder both expect to come next; only what turns out differently is written.
// Both must make the same calls in the same order, so every rule stands here once.
//
// Expected successor of an exit: the one it had before. Expected address of an operation: its last
// one plus its stride. Neither changes for a single surprise (the end of an inner loop, the jump to
// the next row), only when the same surprise comes at two executions in a row.
//
// Not expected: anything across chunks. begin_chunk() forgets all, so that a chunk can be read
// alone.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "stream/code_table.h"

namespace stallscope::stream {

class Predictor {
 public:
  static constexpr unsigned kRecent = 4;

  struct Successors {
    std::uint32_t first;       // expected
    std::uint32_t second;      // the next best
    std::uint32_t executions;  // of this exit in this chunk
    std::uint32_t surprised;   // `executions` when `second` last came
  };
  struct Surprise {
    std::uint64_t delta;       // of the last address that was not expected
    std::uint32_t executions;  // of the exit at that time
  };

  void begin_chunk(const CodeTable& code);
  // Makes room for what was added to the table; nothing is forgotten.
  void grow(const CodeTable& code);

  // Where the chunk begins there is no exit to follow.
  static constexpr std::uint32_t kNoExit = 0xffffffff;
  std::uint32_t current() const { return current_; }

  // To be called for an exit that was not predicted. Whatever was touched once in a chunk may be
  // predicted, so predicted exits need no such call.
  void touch(std::uint32_t exit, const CodeTable& code) {
    if (exit_stamp_[exit] != stamp_) [[unlikely]]
      wake(exit, code);
  }

  void follow(std::uint32_t exit) {
    current_ = exit;
    ++successors_[exit].executions;
  }
  Successors& successors(std::uint32_t exit) { return successors_[exit]; }
  std::uint64_t* last(std::uint32_t operation) { return last_.data() + operation; }
  std::uint64_t* stride(std::uint32_t operation) { return stride_.data() + operation; }

  // `second` came instead of `first`.
  static void learn_second(Successors& from);
  // Something else came.
  static void learn_other(Successors& from, std::uint32_t exit);

  // The address from which an unexpected one is counted. `index` is the operation's place within
  // its block. A new operation has no last address: the one in front is often near.
  std::uint64_t base(std::uint32_t operation, std::uint32_t index) const {
    if (surprises_[operation].executions != 0) return last_[operation];
    return index != 0 ? last_[operation - 1] : anchor_;
  }
  std::uint64_t last_surprise(std::uint32_t operation) const { return surprises_[operation].delta; }
  std::uint64_t recent(unsigned age) const { return recent_[(newest_ - age) % kRecent]; }
  void add_recent(std::uint64_t delta) { recent_[++newest_ % kRecent] = delta; }
  // Where an operation went the last time that it left `base` unexpectedly: repeated walks over
  // lists and trees.
  // Kept as differences of 32 bits, so that the table stays in a core's own cache.
  std::uint64_t followed(std::uint32_t operation, std::uint64_t base) const {
    return base + static_cast<std::uint64_t>(std::int64_t{followed_[slot(operation, base)]});
  }
  // `delta` from `base` to the operation's new address; `executions` of the exit before this one.
  void learn_address(std::uint32_t operation, std::uint64_t base, std::uint64_t delta,
                     std::uint32_t executions) {
    Surprise& surprise = surprises_[operation];
    const bool in_a_row = surprise.executions == executions;
    if (in_a_row && surprise.delta == delta) stride_[operation] = delta;
    surprise = {delta, executions + 1};
    anchor_ = last_[operation] = base + delta;
    const std::uint32_t place = slot(operation, base);
    if (followed_used_ < kFollowedListed) [[unlikely]]
      followed_list_[followed_used_++] = place;
    followed_[place] = static_cast<std::int32_t>(delta);
  }

 private:
  static constexpr unsigned kFollowedBits = 16;
  static constexpr std::uint32_t kFollowedListed = 1024;  // slots to clear one by one, else all

  void wake(std::uint32_t exit, const CodeTable& code);
  static std::uint32_t slot(std::uint32_t operation, std::uint64_t base) {
    const std::uint64_t mixed = (base ^ (operation * 0x9E3779B97F4A7C15)) * 0xD6E8FEB86659FD93;
    return static_cast<std::uint32_t>(mixed >> (64 - kFollowedBits));
  }

  std::uint32_t stamp_ = 0;
  std::uint32_t current_ = kNoExit;
  std::vector<std::uint32_t> exit_stamp_;
  std::vector<std::uint32_t> block_stamp_;
  std::vector<Successors> successors_;
  std::vector<std::uint64_t> last_;
  std::vector<std::uint64_t> stride_;
  std::vector<Surprise> surprises_;
  std::vector<std::int32_t> followed_;
  std::array<std::uint32_t, kFollowedListed> followed_list_;  // the first slots that were written
  std::uint32_t followed_used_ = 0;
  std::array<std::uint64_t, kRecent> recent_{};
  unsigned newest_ = 0;
  std::uint64_t anchor_ = 0;  // the last unexpected address
};

}  // namespace stallscope::stream
