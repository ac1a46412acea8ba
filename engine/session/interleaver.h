// SPDX-License-Identifier: Apache-2.0
// Lets threads that took turns when they were recorded run together, as far as they may. Turns that
// follow each other are cut into pieces of a few blocks and mixed: a piece comes before others of
// an earlier turn only if none of them writes to what it reads or writes, nor reads what it writes.
// So every access finds what it found when it was recorded, and locks and all other synchronisation
// still hold. Waiting for a futex and waking others count as reading and writing its word. Nothing
// is moved across other records: heap blocks that come and go, threads that begin.
//
// A sink of the stream in front of another, which has besides
//   void turn(std::uint32_t thread);   the thread runs from here on
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <utility>
#include <vector>

#include "base/result.h"
#include "probes/random.h"
#include "stallscope_records.h"
#include "stream/code_table.h"

namespace stallscope::session {

constexpr std::uint32_t kMixed = 8;  // turns at most

// Which pieces of which turns of a window touched a word last.
class TouchedWords {
 public:
  using Pieces = std::array<std::uint16_t, kMixed>;  // counted from 1; 0: none

  TouchedWords() : slots_(kSlots) {}
  void clear() {
    ++epoch_;
    used_ = 0;
  }
  bool full() const { return used_ > kSlots / 2; }
  // `needs`: pieces of other turns that must have been played before this one.
  void touch(std::uint64_t word, bool writes, std::uint32_t turn, std::uint16_t piece,
             Pieces& needs) {
    Slot& slot = slot_of(word);
    for (std::uint32_t others = slot.turns & ~(1u << turn); others; others &= others - 1) {
      const auto other = static_cast<std::uint32_t>(std::countr_zero(others));
      const std::uint16_t read = writes ? slot.read[other] : std::uint16_t{0};
      needs[other] = std::max({needs[other], read, slot.written[other]});
    }
    slot.turns |= 1u << turn;
    (writes ? slot.written : slot.read)[turn] = piece;
  }

 private:
  static constexpr std::size_t kSlots = 1 << 16;
  struct Slot {
    std::uint64_t word = 0;
    std::uint32_t epoch = 0;
    std::uint32_t turns = 0;  // bits
    Pieces read{}, written{};
  };
  Slot& slot_of(std::uint64_t word) {
    std::size_t at = word * 0x9e3779b97f4a7c15ULL >> 48;
    for (;; at = (at + 1) & (kSlots - 1)) {
      Slot& slot = slots_[at];
      if (slot.epoch == epoch_ && slot.word == word) return slot;
      if (slot.epoch == epoch_) continue;
      slot = {word, epoch_, 0, {}, {}};
      ++used_;
      return slot;
    }
  }
  std::vector<Slot> slots_;
  std::uint32_t epoch_ = 1;
  std::size_t used_ = 0;
};

template <typename Sink>
class Interleaver {
 public:
  // `grain`: blocks of a piece; at most `together` turns are mixed.
  Interleaver(Sink& sink, const stream::CodeTable& code, std::uint64_t grain,
              std::uint32_t together, std::uint64_t seed)
      : sink_(sink),
        code_(code),
        grain_(grain),
        together_(std::clamp(together, 1u, kMixed)),
        random_(seed),
        window_(kMixed) {}

  void on_block(std::uint32_t exit, const stream::Exit& info, const std::uint64_t* addresses) {
    if (passing_) return sink_.on_block(exit, info, addresses);
    Turn& turn = window_[open_];
    if (turn.exits.size() % grain_ == 0) turn.needs.emplace_back();
    turn.exits.push_back(exit);
    turn.addresses.insert(turn.addresses.end(), addresses, addresses + info.operations);
    touch(info, addresses);
    if (turn.exits.size() >= kLong || touched_.full()) pass();
  }

  Status on_record(unsigned tag, const std::uint64_t* words, std::uint32_t count) {
    const std::uint32_t thread = SS_HEAD_THREAD(words[0]);
    if (tag == SS_BLOCK) return sink_.on_record(tag, words, count);
    if (tag == SS_THREAD_NAME) return Done{};
    if (tag == SS_SYNC) {
      sync(thread, *reinterpret_cast<const ss_sync*>(words));
      return Done{};
    }
    if (tag == SS_THREAD_SWITCH) {
      end_turn();
      begin_turn(thread);
      return Done{};
    }
    if (tag == SS_THREAD_EXIT && !passing_) {
      window_[open_].last.assign(words, words + count);
      return Done{};
    }
    const bool resumes = !passing_;
    if (resumes) pass();
    Status taken = sink_.on_record(tag, words, count);
    if (resumes) begin_turn(thread_);
    return taken;
  }

  void finish() {
    if (!passing_) flush();
  }

 private:
  static constexpr std::size_t kLong = 200'000;  // blocks: nobody else runs beside this
  using Synced =
      std::vector<std::pair<std::uint64_t, bool>>;  // words, and whether they are written
  struct Turn {
    std::uint32_t thread = 1;
    std::vector<std::uint32_t> exits;
    std::vector<std::uint64_t> addresses;
    std::vector<TouchedWords::Pieces> needs;  // by piece
    std::vector<std::uint64_t> last;          // the record of its thread's end
    std::size_t next = 0, next_address = 0;   // when it is played
    std::uint16_t played = 0;                 // pieces
    void clear() {
      exits.clear();
      addresses.clear();
      needs.clear();
      last.clear();
      next = next_address = 0;
      played = 0;
    }
    bool done() const { return next >= exits.size(); }
  };

  void touch(const stream::Exit& info, const std::uint64_t* addresses) {
    Turn& turn = window_[open_];
    const auto piece = static_cast<std::uint16_t>(turn.needs.size());
    for (const auto& [word, writes] : synced_)
      touched_.touch(word, writes, open_, piece, turn.needs.back());
    synced_.clear();
    for (std::uint32_t i = 0; i < info.operations; ++i) {
      const stream::Operation& operation = code_.operations[info.first_operation + i];
      if (addresses[i] == SS_NO_ADDRESS || operation.is_prefetch()) continue;
      const std::uint64_t last = addresses[i] + (operation.size ? operation.size - 1 : 0);
      for (std::uint64_t word = addresses[i] >> 3; word <= last >> 3; ++word)
        touched_.touch(word, operation.kind != SS_OP_KIND_LOAD, open_, piece, turn.needs.back());
    }
  }

  // As if the futex word were read by who waits for it and written by who wakes others; what a
  // thread is told when it wakes up comes before its turn. It counts with the block that follows.
  void sync(std::uint32_t thread, const ss_sync& record) {
    const bool waits =
        record.kind == SS_SYNC_KIND_FUTEX_WAIT || record.kind == SS_SYNC_KIND_FUTEX_WOKEN;
    (thread == thread_ ? synced_ : early_).emplace_back(record.address >> 3, !waits);
  }

  void begin_turn(std::uint32_t thread) {
    Turn& turn = window_[open_];
    turn.clear();
    turn.thread = thread;
    synced_.swap(early_);
    early_.clear();
    thread_ = thread;
    passing_ = false;
  }

  void end_turn() {
    if (passing_) return;
    // What it did last, for those that come: a wake-up at its very end.
    if (!window_[open_].needs.empty()) touch({0, 0, 0, 0}, nullptr);
    if (++open_ < together_ && !touched_.full() && !seen(thread_)) return;
    --open_;
    flush();
  }

  // Whether the thread has two turns in the window already: then the next begins a new one.
  bool seen(std::uint32_t thread) const {
    std::uint32_t times = 0;
    for (std::uint32_t i = 0; i < open_; ++i) times += window_[i].thread == thread;
    return times > 1;
  }

  // The turn that is open is no longer held back, nor what came before it.
  void pass() {
    flush();
    sink_.turn(thread_);
    passing_ = true;
  }

  bool may_play(std::uint32_t number) const {
    const Turn& turn = window_[number];
    for (std::uint32_t earlier = 0; earlier < number; ++earlier) {
      const Turn& other = window_[earlier];
      if (other.done()) continue;
      if (other.thread == turn.thread) return false;
      if (turn.needs[turn.played][earlier] > other.played) return false;
    }
    return true;
  }

  void play(Turn& turn) {
    sink_.turn(turn.thread);
    const std::size_t end = std::min(turn.exits.size(), turn.next + grain_);
    while (turn.next < end) {
      const std::uint32_t exit = turn.exits[turn.next++];
      const stream::Exit& info = code_.exits[exit];
      sink_.on_block(exit, info, turn.addresses.data() + turn.next_address);
      turn.next_address += info.operations;
    }
    ++turn.played;
  }

  // Plays all turns of the window together. The first that is not done can always go on.
  void flush() {
    const std::uint32_t count = open_ + 1;
    std::uint32_t left = 0, at = 0;
    for (std::uint32_t i = 0; i < count; ++i) left += !window_[i].done();
    while (left > 0) {
      for (at = (at + 1 + (random_.next() & 1)) % count; window_[at].done() || !may_play(at);
           at = at + 1 < count ? at + 1 : 0) {
      }
      play(window_[at]);
      left -= window_[at].done();
    }
    for (std::uint32_t i = 0; i < count; ++i) {
      const std::vector<std::uint64_t>& last = window_[i].last;
      if (!last.empty())
        (void)sink_.on_record(SS_THREAD_EXIT, last.data(), static_cast<std::uint32_t>(last.size()));
      window_[i].clear();
    }
    open_ = 0;
    touched_.clear();
  }

  Sink& sink_;
  const stream::CodeTable& code_;
  std::uint64_t grain_;
  std::uint32_t together_;
  probes::Random random_;
  TouchedWords touched_;
  std::vector<Turn> window_;
  Synced synced_;           // by the turn that is open, since its last block
  Synced early_;            // by the one that comes
  std::uint32_t open_ = 0;  // number of the turn that is being read
  std::uint32_t thread_ = 1;
  bool passing_ = false;
};

}  // namespace stallscope::session
