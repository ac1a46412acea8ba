// SPDX-License-Identifier: Apache-2.0
// The samples of a perf.data file as columns, in the order and with the words that perf script
// prints: for comparing, and for whoever wants them as they are.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "sources/data_source.h"
#include "sources/perf_data.h"

namespace stallscope::sources {

struct PerfSamples {
  std::vector<std::string> event, command, served, operation, snoop, tlb;
  std::vector<std::uint32_t> pid, tid, cpu;
  std::vector<std::uint64_t> time, ip, address, weight, data_source, period;
  std::vector<std::uint8_t> locked, mode;
  std::uint64_t lost = 0;
};

// Names of threads as COMM, FORK and exec give them.
class ThreadNames {
 public:
  void on(const Named& named);
  void on(const Forked& forked);
  std::string name(std::uint32_t tid) const;  // ":TID" when it never had one

 private:
  std::unordered_map<std::uint32_t, std::string> names_;
};

class SampleCollector : public PerfSink {
 public:
  Status on_event(const Event& record, const PerfEvent* event) override;
  PerfSamples samples;

 private:
  void add(const Sample& sample, const PerfEvent* event);
  ThreadNames names_;
};

}  // namespace stallscope::sources
