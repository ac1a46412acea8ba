// SPDX-License-Identifier: Apache-2.0
// One process image being recorded: its ring, what is known of it, its stream on disk.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "session/kept_values.h"
#include "session/pages.h"
#include "session/placing.h"
#include "session/ring.h"
#include "session/simulation.h"
#include "stream/values.h"
#include "stream/writer.h"
#include "target/target.h"

namespace stallscope::session {

// Rows of a growing table, on their way to disk.
struct Batch {
  std::string folder;
  std::unique_ptr<ObjectTable> objects;  // one of the four
  std::unique_ptr<EventTable> events;
  std::unique_ptr<PageLogTable> page_log;
  std::unique_ptr<WatchedTable> watched;
};

class Process {
 public:
  // `inherit` gives what a fork token stands for, and may be called once.
  using Inherit = std::function<std::vector<std::uint64_t>(std::uint64_t token)>;
  using Forked = std::function<void(std::uint64_t token, std::vector<std::uint64_t> words)>;

  // `symbols` outlives the process; other threads use it too.
  Process(std::string name, std::string folder, std::unique_ptr<Ring> ring,
          symbols::SymbolCache& symbols);

  // Creates the stream file; a disk that refuses costs the stream, not the recording. Without
  // `blocks` it keeps how often each exit was taken instead of every execution.
  void open_stream(const std::string& path, bool blocks);
  // ... and a file for what the accesses read and wrote, when capture tells: in all of memory, or
  // in some of it.
  void open_values(const std::string& path, std::shared_ptr<const ValueTargets> targets);
  // Runs a machine beside the program; a description that make_machine refuses is an error here.
  void simulate(const machine::MachineConfig& config, const SimulationOptions& options);

  // Follows its page references; options that PageTracker::make refuses are an error here.
  void track(const PageOptions& options);

  // Reads up to `buffers` published buffers; true when there was one.
  bool pump(int buffers, const Inherit& inherit, const Forked& forked);
  // Also reads what is not published yet, which may be everything that a program does for minutes
  // when only counts are kept.
  void peek(const Inherit& inherit, const Forked& forked);
  // The process has ended and pump() ran dry: reads the rest, closes everything.
  void close(const Inherit& inherit, const Forked& forked);
  // Looks up names that will be needed in the end, while there is nothing else to do.
  void look_up_names();
  // Everything so far to disk, so that little is lost if the recorder dies.
  void flush();
  void stop_stream(const std::string& why);

  bool over() const { return ring_->ended() || ring_->abandoned(); }
  // Its fork token is known but the parent's fork record has not been read yet.
  std::optional<std::uint64_t> waits_for() const;
  std::uint64_t executed() const { return ring_ ? ring_->executed() : 0; }
  std::uint64_t stream_bytes() const { return writer_ ? writer_->bytes() : cut_bytes_; }
  std::uint64_t value_bytes() const { return values_ ? values_->bytes() : 0; }

  const std::string& name() const { return name_; }  // PID.IMAGE
  const std::string& folder() const { return folder_; }
  const std::vector<Error>& errors() const { return errors_; }
  target::Target& target() { return target_; }
  bool complete() const { return complete_; }  // it ended by itself and everything was read
  bool counted() const { return counted_; }    // its stream has counts instead of executions
  Simulation* simulation() { return simulation_.get(); }
  PageTracker* tracker() { return tracker_.get(); }
  const KeptValues* kept_values() const { return kept_.get(); }  // null: all or none
  stream::Totals totals() const { return writer_ ? writer_->totals() : stream::Totals{}; }

 private:
  void count();  // what the ring has counted
  void take_rest(const Inherit& inherit, const Forked& forked);
  struct Sink;
  void take(std::span<const std::uint64_t> words, const Inherit& inherit, const Forked& forked);
  void parse(std::span<const std::uint64_t> words, const Forked& forked);
  void fail(Error error);
  std::vector<types::Module> modules();  // whose files can be read

  std::string name_;
  std::string folder_;
  std::unique_ptr<Ring> ring_;
  target::Target target_;
  std::unique_ptr<stream::TraceWriter> writer_;
  std::unique_ptr<stream::ValueWriter> values_;
  std::unique_ptr<KeptValues> kept_;
  std::unique_ptr<Simulation> simulation_;
  std::unique_ptr<PageTracker> tracker_;
  symbols::SymbolCache& symbols_;
  Placing placing_;
  std::uint32_t named_blocks_ = 0;  // whose names have been looked up
  std::uint64_t cut_bytes_ = 0;     // of a stream that was stopped
  std::vector<Error> errors_;
  bool started_ = false;  // its process_start was read
  bool damaged_ = false;
  bool complete_ = false;
  bool counted_ = false;
  bool valued_ = false;  // its block executions come with values
};

}  // namespace stallscope::session
