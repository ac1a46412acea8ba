// SPDX-License-Identifier: Apache-2.0
// A monitor core: small, driven by events, with a scratch-pad of its own and no way to memory.
//
// Two stages: while one instruction is executed, the next is fetched. A branch that is taken and an
// access to the scratch-pad cost one cycle more (one port). It runs one task after the other, those
// of high priority first, none interrupted; without tasks it sleeps, and waking costs cycles.
//
// What goes wrong never reaches the machine: a full queue drops the signal and counts it; a bad
// instruction, an access outside of the scratch-pad or a task longer than the limit ends the task
// and turns its detector off. Not modelled: wires, and the time that a signal travels.
//
// Who drives it calls advance() before anything that happens at a later cycle. Single thread.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "base/result.h"
#include "monitor/detector.h"
#include "monitor/isa.h"

namespace stallscope::monitor {

constexpr unsigned kSignals = 64;
constexpr std::uint32_t kBoot = kSignals;  // signal number of the boot task
// Memory map, for the monitor itself and for the cores that write to it.
constexpr std::uint64_t kTableBase = 0x10000;     // 8 bytes a signal: its handler, 0 for off
constexpr std::uint64_t kDetectorBase = 0x20000;  // 64 bytes a signal: see Monitor::detector_word
constexpr std::uint64_t kDetectorBytes = 64;
constexpr std::uint64_t kDoorbell = 0x30000;  // a write is the event `software`

struct Config {
  std::uint32_t high_queue = 16, low_queue = 64;  // tasks
  std::uint32_t scratch = 16384;                  // bytes
  std::uint32_t send_buffer = 8;                  // signals to other monitors
  std::uint32_t wake = 4;                         // cycles out of low power
  std::uint64_t task_limit = 1 << 20;             // cycles of one task
};

// What an assembler makes.
struct Image {
  std::vector<std::uint8_t> scratch;  // from address 0; address 0 itself is never a handler
  std::vector<Detector> detectors;    // by signal
  std::uint64_t boot = 0;             // where it begins; 0: nowhere, all detectors stay off
};

// What a monitor is connected to. Calls come during advance(), in the order of cycles.
class Machine {
 public:
  virtual ~Machine() = default;
  virtual std::uint64_t check(Feature feature) = 0;
  virtual void signal(Feature feature, std::uint64_t a, std::uint64_t b, std::uint64_t cycle) = 0;
  // Whether the other monitor's queue took it; what was not taken is tried again each cycle.
  virtual bool deliver(std::uint32_t monitor, std::uint32_t signal, std::uint64_t value,
                       std::uint64_t cycle) = 0;
};

struct Account {
  std::uint64_t busy = 0;      // cycles of instructions, the boot program's included
  std::uint64_t starting = 0;  // of fetching a task's first instruction
  std::uint64_t waking = 0;
  std::uint64_t suspended = 0;  // while a core wrote to it
  std::uint64_t low_power = 0;
  std::uint64_t instructions = 0;
  std::uint64_t tasks = 0;
  std::uint64_t signals = 0;  // that detectors sent
  std::uint64_t dropped_high = 0, dropped_low = 0;
  std::uint64_t unknown = 0;        // that detectors had to leave out: their data is not known
  std::uint64_t dropped_sends = 0;  // the buffer was full, or there is no such monitor
  std::uint64_t faults = 0;         // tasks that ended by one
  std::uint64_t runaways = 0;       // tasks that were longer than the limit
  std::uint64_t longest_high = 0, longest_low = 0;  // queues
};

struct Fault {
  std::string what;
  std::uint64_t cycle, pc;
  std::uint32_t signal;
};

class Monitor {
 public:
  // Checks the image against the configuration. `machine` outlives it.
  static Result<Monitor> make(const Config& config, const Image& image, Machine& machine);

  // Whether any detector is on for it: everything else can be left out.
  bool listens(Event event) const { return on_[static_cast<unsigned>(event)] != 0; }
  // Something happened at `cycle`; `count` times for what is only counted. When a detector that
  // stalls let it through, the cycle at which the core may go on; else `cycle`.
  std::uint64_t notify(const Happening& what, std::uint64_t cycle, std::uint64_t count = 1);
  // From another monitor.
  bool receive(std::uint32_t signal, std::uint64_t value, std::uint64_t cycle);
  // Runs up to this cycle.
  void advance(std::uint64_t cycle);
  // Runs one instruction, or starts the next task; false when there is nothing to do.
  bool step();

  // By the cores, at any cycle not before the last advance. False: there is nothing.
  bool write(std::uint64_t address, std::uint64_t value, std::uint64_t cycle);
  bool read(std::uint64_t address, std::uint64_t& value) const;

  std::uint64_t now() const { return now_; }
  std::uint64_t changes() const { return changes_; }  // of what it listens to
  const Account& account() const { return account_; }
  const std::vector<Fault>& faults() const { return faults_; }  // the first few
  const std::array<Detector, kSignals>& detectors() const { return detectors_; }
  std::uint64_t handler(std::uint32_t signal) const { return table_[signal]; }
  std::uint64_t pc() const { return pc_; }
  bool running() const { return task_.running; }
  std::uint32_t running_signal() const { return task_.signal; }
  const std::array<std::uint64_t, kRegisters>& registers() const { return registers_; }
  std::size_t queued(bool high) const { return (high ? high_ : low_).size(); }
  // The word that the next instruction is fetched from; 0 when it lies nowhere.
  std::uint32_t next_word() const;

 private:
  struct Task {
    std::uint32_t signal = 0;
    std::uint64_t handler = 0;
    Happening what{};
    std::uint64_t cycle = 0;  // when it was queued
    std::uint64_t number = 0;
    bool running = false;
  };
  // An instruction as it was decoded last; `word` says whether it still is that one.
  struct Decoded {
    std::uint32_t word = 0;
    Instruction instruction{};
    const Entry* entry = nullptr;
  };
  struct Sent {
    std::uint32_t monitor, signal;
    std::uint64_t value;
  };
  Monitor(const Config& config, const Image& image, Machine& machine);

  std::uint64_t notify_one(std::uint32_t signal, const Happening& what, std::uint64_t cycle,
                           std::uint64_t count);
  std::uint64_t queue(std::uint32_t signal, const Happening& what, bool high);  // number, 0: full
  void start(Task task);
  void execute(std::uint32_t word);
  const Decoded* decoded(std::uint32_t word);  // nullptr: there is no such instruction
  void execute_branch(const Instruction& what);
  void execute_monitor(const Instruction& what);
  bool compare(const Instruction& what) const;
  std::uint64_t calculate(const Instruction& what) const;
  void end_task();
  void fault(std::string what);
  void set_handler(std::uint64_t signal, std::uint64_t address);
  void clear();
  void flush_sends();
  bool load(std::uint64_t address, std::uint64_t& value) const;
  bool store(std::uint64_t address, std::uint64_t value);
  const std::uint64_t* detector_word(std::uint64_t address) const;
  void spend(std::uint64_t cycles, std::uint64_t& on) {
    now_ += cycles;
    on += cycles;
  }

  Config config_;
  Machine* machine_;
  std::vector<std::uint8_t> scratch_;
  std::vector<Decoded> decoded_;  // by place in the scratch-pad
  std::array<std::uint64_t, kSignals> table_{};
  std::array<Detector, kSignals> detectors_{};
  std::array<std::uint64_t, kEvents> on_{};  // signals whose detectors are on, by event
  std::uint64_t changes_ = 0;
  std::deque<Task> high_, low_;
  std::deque<Sent> sends_;
  Task task_;
  std::array<std::uint64_t, kRegisters> registers_{};
  std::uint64_t pc_ = 0;
  std::uint64_t now_ = 0;
  std::uint64_t started_ = 0;  // when the task did
  std::uint64_t numbers_ = 0;  // of tasks
  std::uint64_t ended_ = 0;    // number of the task that ended last
  bool asleep_ = false;
  Account account_;
  std::vector<Fault> faults_;
};

}  // namespace stallscope::monitor
