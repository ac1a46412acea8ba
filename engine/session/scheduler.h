// SPDX-License-Identifier: Apache-2.0
// Where the threads of a program run on a machine of several cores.
//
// By default a new thread goes where the fewest threads are, chips in turn, whatever it shares with
// whom; a placement says otherwise for some or all. With rotation, threads are dealt to chips anew
// after every stretch of the run: over a few stretches every two are apart once.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "machine/chips.h"

namespace stallscope::session {

class Scheduler {
 public:
  // `given`: thread and hardware thread; `first`: where filling begins.
  Scheduler(const machine::ChipsConfig& chips,
            const std::vector<std::pair<std::uint32_t, std::uint32_t>>& given, std::uint64_t seed,
            std::uint32_t first = 0);

  // The hardware thread that a thread is on; one that was never seen is put somewhere.
  std::uint32_t context_of(std::uint32_t thread);
  void end(std::uint32_t thread);
  // All threads that live are dealt anew.
  void rotate();

  // Threads that live; at least 1.
  std::uint64_t alive() const { return alive_ ? alive_ : 1; }
  // Where each thread was at last, in the order in which they came.
  struct Placed {
    std::uint32_t thread, context;
    bool alive;
  };
  const std::vector<Placed>& threads() const { return threads_; }

 private:
  std::uint32_t least_loaded() const;
  // The n-th hardware thread in the order in which they are filled.
  std::uint32_t spread(std::uint32_t n) const;
  std::uint32_t within(std::uint32_t chip, std::uint32_t n) const;

  machine::ChipsConfig chips_;
  std::vector<std::pair<std::uint32_t, std::uint32_t>> given_;
  std::uint64_t seed_;
  std::uint32_t first_;
  std::uint64_t alive_ = 0;
  std::uint32_t stretch_ = 0;  // of rotation
  std::vector<Placed> threads_;
  std::vector<std::uint32_t> load_;  // threads by hardware thread
};

}  // namespace stallscope::session
