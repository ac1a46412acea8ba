// SPDX-License-Identifier: Apache-2.0
// Recording: takes the rings of a target and its children as they appear in a session folder, reads
// them on a thread of its own, keeps streams on disk, and hands out finished processes.
//
// start() and stop() once each; the rest may be called by one other thread at any time.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/result.h"
#include "session/process.h"

namespace stallscope::session {

struct RecorderOptions {
  std::string session_folder;  // where rings appear
  std::string output_folder;   // the root process's recording; children go below children/
  bool trace = false;          // keep block executions and addresses
  bool values = false;         // ... and what was read and written, beside the trace
  std::shared_ptr<const ValueTargets> value_targets;  // there only; null: everywhere
  std::uint64_t max_bytes = 0;                        // of all streams together; 0 for no limit
  std::optional<machine::MachineConfig> machine;      // runs beside each process
  SimulationOptions simulation;
  std::optional<PageOptions> pages;  // follow page references
};

struct Progress {
  std::uint64_t instructions = 0;  // executed so far, all processes
  std::uint64_t bytes = 0;         // of streams on disk
  std::uint64_t running = 0;       // processes whose rings are open
  std::uint64_t finished = 0;
};

class Recorder {
 public:
  // `symbols` outlives the recorder and its processes.
  Recorder(RecorderOptions options, symbols::SymbolCache& symbols);
  ~Recorder();

  // How capture sifts for the machine when the recorder falls behind, as its option --ss-sift has
  // it; empty where it must not.
  std::string sieve() const;
  Status start(std::uint64_t root_pid);
  // Reads what is there, then ends: `abandon` leaves running processes to themselves.
  void stop(bool abandon);

  Progress progress() const;
  std::vector<std::unique_ptr<Process>> take_finished();
  std::vector<Batch> take_batches();

 private:
  void run();
  void find_rings();
  bool try_open(const std::string& name);
  std::string folder_for(const std::string& name) const;
  Process::Inherit inherit();
  Process::Forked remember();
  bool waits(const Process& process) const;
  bool pump(Process& process);
  void flush(Process& process);
  void finish(std::unique_ptr<Process> process);
  void queue_batches(Process& process, bool all);
  void tick();

  void look_up_names();

  RecorderOptions options_;
  symbols::SymbolCache& symbols_;
  std::uint64_t last_names_ns_ = 0;
  std::uint64_t root_pid_ = 0;
  int notify_fd_ = -1;
  std::thread thread_;
  std::atomic<bool> stopping_{false};
  std::atomic<bool> abandon_{false};

  // Engine thread only.
  std::vector<std::string> unopened_;
  std::vector<std::unique_ptr<Process>> running_;
  std::map<std::uint64_t, std::vector<std::uint64_t>> inheritances_;  // by fork token
  std::uint64_t last_tick_ns_ = 0;
  std::uint64_t finished_instructions_ = 0;
  std::uint64_t finished_bytes_ = 0;
  std::uint64_t finished_count_ = 0;

  mutable std::mutex mutex_;  // guards what follows
  std::condition_variable room_;
  std::deque<std::unique_ptr<Process>> finished_;
  std::deque<Batch> batches_;
  Progress progress_;
};

}  // namespace stallscope::session
