// SPDX-License-Identifier: Apache-2.0
// Two threads that work on the same things one after the other, each on another one at a time: the
// first fills, the second takes what is full, in the same order. Until there is enough work for a
// second thread, on a machine with one processor and when asked to, the first does both.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <thread>
#include <utility>

namespace stallscope::session {

template <typename Turn>
class Relay {
 public:
  // `take` does the second's part. What it refers to outlives this.
  explicit Relay(std::function<void(Turn&)> take, bool alone = false)
      : take_(std::move(take)), one_thread_(alone) {
    turns_[0] = std::make_unique<Turn>();  // all that is needed by one thread
  }
  ~Relay() {
    if (!thread_.joinable()) return;
    drain();
    stopping_ = true;
    ++next_;
    hand_over();
    thread_.join();
  }
  Relay(const Relay&) = delete;
  Relay& operator=(const Relay&) = delete;

  // The one that the first thread works on.
  Turn& current() { return *turns_[next_ % kTurns]; }

  // It is full; the next one is empty. May wait for the second thread.
  void pass_on() {
    if (!thread_.joinable()) {
      take_(current());
      if (!one_thread_ && ++alone_ == kAlone && std::thread::hardware_concurrency() > 1) start();
      return;
    }
    ++next_;
    hand_over();
    wait_until_taken(next_ + 1 - kTurns);
  }
  // Until the second thread has done everything: then what it works with is the first's.
  void drain() {
    if (!thread_.joinable()) return;
    hand_over();
    wait_until_taken(next_);
  }

 private:
  static constexpr std::uint32_t kTurns = 32;
  static constexpr std::uint32_t kAlone = 16;

  void start() {
    for (auto& turn : turns_)
      if (!turn) turn = std::make_unique<Turn>();
    thread_ = std::thread([this] { run(); });
  }
  void hand_over() {
    if (filled_.exchange(next_, std::memory_order_release) != next_) filled_.notify_one();
  }
  // Counters wrap around.
  void wait_until_taken(std::uint32_t number) {
    std::uint32_t taken = taken_.load(std::memory_order_acquire);
    while (static_cast<std::int32_t>(number - taken) > 0) {
      taken_.wait(taken, std::memory_order_acquire);
      taken = taken_.load(std::memory_order_acquire);
    }
  }
  void run() {
    std::uint32_t taken = taken_.load();
    for (;;) {
      filled_.wait(taken, std::memory_order_acquire);
      if (stopping_) return;
      const std::uint32_t filled = filled_.load(std::memory_order_acquire);
      while (taken != filled) {
        take_(*turns_[taken % kTurns]);
        taken_.store(++taken, std::memory_order_release);
        taken_.notify_one();
      }
    }
  }

  std::function<void(Turn&)> take_;
  bool one_thread_;  // never a second one
  std::array<std::unique_ptr<Turn>, kTurns> turns_;
  std::uint32_t next_ = 0;  // number of the current turn
  std::atomic<std::uint32_t> filled_{0}, taken_{0};
  std::atomic<bool> stopping_{false};
  std::uint32_t alone_ = 0;  // turns without a second thread
  std::thread thread_;
};

}  // namespace stallscope::session
