// SPDX-License-Identifier: Apache-2.0
// Reads perf.data files, as `perf record` and `perf mem record` leave them: the file form and the
// form that goes through a pipe, compressed or not. Nothing in the file is believed: every size is
// held against the file's, and memory is bounded however the file lies.
//
// Not read: files of big-endian machines and of perf before 2010 (refused), folders of
// `perf record --threads` (refused), and packets of hardware tracers inside AUXTRACE records
// (Intel PT, CoreSight), which are skipped and told by a note. Those of Arm's SPE become samples.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "sources/perf_events.h"
#include "stream/chunk_source.h"

namespace stallscope::sources {

// What was counted: a perf_event_attr, its name and the ids that its records carry.
struct PerfEvent {
  std::string name;
  std::uint32_t type = 0;
  std::uint64_t config = 0;
  std::uint64_t period = 0;  // events from sample to sample; a frequency when is_frequency
  bool is_frequency = false;
  std::uint8_t precise = 0;  // 0 to 3: how far the instruction pointer may be off
  std::uint64_t config1 = 0;
  Layout layout;
  std::vector<std::uint64_t> ids;
};

struct PerfBuildId {
  std::string path;
  std::string build_id;  // bytes
};

// What the file says about its making; empty or zero where it does not.
struct PerfFacts {
  std::string hostname, os_release, perf_version, arch, cpu;
  std::string cpu_id;                // as the processor says it: vendor and family, or Arm's MIDR
  std::vector<std::string> command;  // of perf itself
  std::uint32_t cpus_available = 0, cpus_online = 0;
  std::uint64_t memory_kb = 0;
  std::vector<PerfBuildId> build_ids;
  bool piped = false;
  bool compressed = false;
};

// A row for the quality table.
struct PerfNote {
  std::string kind, severity;
  std::uint64_t count = 0;
  std::string explanation;
};

class PerfSink {
 public:
  virtual ~PerfSink() = default;
  // In the order of their times, as far as the file allows. `event` is what the record belongs to:
  // none where its id is not in the file. Both are valid during the call.
  virtual Status on_event(const Event& record, const PerfEvent* event) = 0;
};

class PerfData {
 public:
  static Result<PerfData> open(const std::string& path);
  // `name` is for messages.
  static Result<PerfData> open(std::unique_ptr<stream::Source> source, std::string name);
  PerfData(PerfData&&) noexcept;
  PerfData& operator=(PerfData&&) noexcept;
  ~PerfData();

  // Once. What stood in front of damage has been delivered when an error comes.
  Status read(PerfSink& sink);

  // Of a file that went through a pipe complete only behind read(), of others after open().
  const PerfFacts& facts() const;
  const std::vector<PerfEvent>& events() const;
  const std::vector<PerfNote>& notes() const;  // complete behind read()

 private:
  struct State;
  explicit PerfData(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace stallscope::sources
