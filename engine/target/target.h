// SPDX-License-Identifier: Apache-2.0
// Everything the stream says about one process image of the target, gathered while it flows by:
// threads, mappings and modules, heap blocks, code, events. A sink for stream::parse and for the
// trace reader alike. Copied when the process forks.
//
// Engine thread only, until the process has ended; then whoever finishes it.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/result.h"
#include "stallscope_records.h"
#include "stallscope_tables.h"
#include "stream/code_table.h"
#include "target/heap.h"
#include "target/mappings.h"
#include "target/names.h"
#include "target/threads.h"

namespace stallscope::target {

// How a process image came and went, as far as the stream knows.
struct Life {
  std::uint64_t pid = 0;
  std::uint64_t parent_pid = 0;
  std::uint64_t fork_token = 0;  // 0 after an exec
  std::vector<std::string> command;
  std::uint64_t started_ns = 0;
  std::uint64_t ended_ns = 0;
  bool ended = false;     // it said so itself
  bool replaced = false;  // by an exec
  std::int32_t exit_code = -1;
};

struct ChildStatus {
  std::uint64_t pid;
  std::uint64_t status;  // as wait4 gives it
};

class Target {
 public:
  // The sink.
  void on_block(std::uint32_t exit, const stream::Exit&, const std::uint64_t*) {
    if (exit >= taken_.size()) taken_.resize(code.exits.size());
    ++taken_[exit];
  }
  // For who counts blocks itself: a number for each exit.
  std::uint64_t* taken() {
    if (taken_.size() < code.exits.size()) taken_.resize(code.exits.size());
    return taken_.data();
  }
  Status on_record(unsigned tag, const std::uint64_t* words, std::uint32_t count);

  const std::vector<std::uint64_t>& counted() const { return taken_; }  // what on_block() counted
  // COUNT mode: how often each exit was taken; replaces what was given before.
  void set_taken(std::vector<std::uint64_t> taken) { taken_ = std::move(taken); }
  // The counters of a ring say how often each exit was reached, whether or not it was taken.
  void set_reached(std::vector<std::uint64_t> reached);
  // STREAM mode: how often exits were taken in what came sifted; replaces what was given before.
  void set_sifted(std::vector<std::uint64_t> sifted) { sifted_ = std::move(sifted); }

  // What a child that forks off now needs to know, as records: code, mappings, allocation paths,
  // live heap blocks and names, and the one thread that goes on, with the regions that it is in.
  // Read after the child's process_start.
  std::vector<std::uint64_t> inheritance(std::uint32_t thread) const;

  // The process is over at `when` measured instructions.
  void close(std::uint64_t when);

  // Times each exit was the one taken, one number for each exit of the code table.
  std::vector<std::uint64_t> exits_taken() const;
  std::uint64_t executed() const;  // instructions, by exits_taken()

  // Instructions measured in this image; a forked child's clock goes on from its parent's.
  std::uint64_t measured() const { return when_ - first_when_; }
  std::uint64_t first_when() const { return first_when_; }
  std::uint64_t last_when() const { return when_; }

  stream::CodeTable code;
  std::vector<std::uint32_t> block_module;  // by block
  Threads threads;
  Mappings mappings;
  Heap heap;
  Names names;
  Life life;
  std::map<std::uint32_t, std::vector<std::uint64_t>> sites;
  std::vector<ChildStatus> waited;
  ObjectTable objects;   // those that died, until they are taken
  EventTable events;     // until they are taken
  WatchedTable watched;  // likewise
  QualityTable quality;
  bool measured_all = true;  // false once measuring was off for a while

 private:
  Status process(unsigned tag, const std::uint64_t* words, std::uint32_t count);
  Status memory(unsigned tag, const std::uint64_t* words, std::uint32_t count);
  Status thread(unsigned tag, const std::uint64_t* words, std::uint32_t count);
  Status mark(unsigned tag, const std::uint64_t* words, std::uint32_t count);
  void start(const ss_process_start& record, std::string_view tail);
  void allocate(const ss_alloc& record, std::uint32_t thread);
  void event(const std::uint64_t* words, std::string_view kind, std::uint64_t address,
             std::int64_t value, std::string_view text);

  void region(std::uint64_t kind, std::uint32_t thread, std::string_view name);

  std::map<std::uint32_t, std::vector<std::string>> regions_;  // open ones by thread, outer first
  std::vector<std::uint64_t> taken_;   // by exit; may be shorter than the code table
  std::vector<std::uint64_t> sifted_;  // beside these; too
  std::uint64_t first_when_ = 0;
  std::uint64_t when_ = 0;
};

}  // namespace stallscope::target
