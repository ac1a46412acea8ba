// SPDX-License-Identifier: Apache-2.0
// The parts of a perf.data file around its records: header, attributes, feature sections.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "sources/perf_data.h"
#include "stream/chunk_source.h"

namespace stallscope::sources {

struct Section {
  std::uint64_t offset = 0, size = 0;
};

struct PerfHeader {
  Section data;
  bool piped = false;
  bool cut_off = false;              // the file ends before its data or its feature sections do
  bool unfinished = false;           // perf did not live to write how much data there is
  bool newer = false;                // it has header fields or features that are not known here
  std::uint32_t unpacked_bytes = 0;  // most that one COMPRESSED record holds; 0: not said
  PerfFacts facts;
  std::vector<PerfEvent> events;
};

// Features that are read; the numbers are those of perf.
enum class Feature : unsigned {
  build_id = 2,
  hostname = 3,
  os_release = 4,
  version = 5,
  arch = 6,
  cpus = 7,
  cpu = 8,
  cpu_id = 9,
  memory = 10,
  command = 11,
  events = 12,
  compressed = 27,
  last_known = 33,
};

Result<PerfHeader> read_header(const stream::Source& source, const std::string& name);

// One feature, from a section of the file or a record of the pipe form. What does not parse is left
// out: names and hosts are worth having, but no reason to refuse samples.
void read_feature(unsigned feature, std::span<const std::byte> bytes, PerfHeader& header);

// The perf_event_attr at the beginning of `bytes`. False when it is too short to be one.
bool read_attribute(std::span<const std::byte> bytes, PerfEvent& event);

// A name where the file has none: that of a software event, or type and config.
std::string event_name(const PerfEvent& event);

Error damaged(const std::string& name, std::uint64_t offset, const std::string& why);

}  // namespace stallscope::sources
