// SPDX-License-Identifier: Apache-2.0
// One record of the kernel's perf interface (a perf_event_header and what follows it), as it lies
// in a ring buffer and in a perf.data file alike. Little-endian.
//
// Nothing of a record is believed: whatever its bytes are, nothing past its end is read. Texts and
// arrays in the results point into the record.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <variant>

#include "base/result.h"
#include "sources/cursor.h"

namespace stallscope::sources {

// Bits of perf_event_attr.sample_type: which parts a sample has. They stand in the record in an
// order of their own.
enum SamplePart : std::uint64_t {
  kSampleIp = 1U << 0,
  kSampleTid = 1U << 1,
  kSampleTime = 1U << 2,
  kSampleAddress = 1U << 3,
  kSampleRead = 1U << 4,
  kSampleCallchain = 1U << 5,
  kSampleId = 1U << 6,
  kSampleCpu = 1U << 7,
  kSamplePeriod = 1U << 8,
  kSampleStreamId = 1U << 9,
  kSampleRaw = 1U << 10,
  kSampleBranches = 1U << 11,
  kSampleRegsUser = 1U << 12,
  kSampleStackUser = 1U << 13,
  kSampleWeight = 1U << 14,
  kSampleDataSource = 1U << 15,
  kSampleIdentifier = 1U << 16,
  kSampleTransaction = 1U << 17,
  kSampleRegsIntr = 1U << 18,
  kSamplePhysical = 1U << 19,
  kSampleAux = 1U << 20,
  kSampleCgroup = 1U << 21,
  kSampleDataPageSize = 1U << 22,
  kSampleCodePageSize = 1U << 23,
  kSampleWeightParts = 1U << 24,
};

// Bits of perf_event_attr.read_format.
enum ReadPart : std::uint64_t {
  kReadEnabled = 1U << 0,
  kReadRunning = 1U << 1,
  kReadId = 1U << 2,
  kReadGroup = 1U << 3,
  kReadLost = 1U << 4,
};

// Bits of perf_event_attr.branch_sample_type that change the shape of a sample.
enum BranchPart : std::uint64_t { kBranchIndex = 1U << 17, kBranchCounters = 1U << 19 };

// Types of records. Those from 64 on are written by the perf program, not by the kernel.
enum class RecordType : std::uint32_t {
  mmap = 1,
  lost = 2,
  comm = 3,
  exit = 4,
  throttle = 5,
  unthrottle = 6,
  fork = 7,
  read = 8,
  sample = 9,
  mmap2 = 10,
  lost_samples = 13,
  switched = 14,
  switched_cpu_wide = 15,
};

// The parts of perf_event_attr that decide how its records look.
struct Layout {
  std::uint64_t sample_type = 0;
  std::uint64_t read_format = 0;
  std::uint64_t branch_sample_type = 0;
  std::uint64_t regs_user = 0;  // masks: a register for each bit
  std::uint64_t regs_intr = 0;
  bool sample_id_all = false;  // every record ends with a Source
};

// Where a record comes from. In a sample, the parts that sample_type names; in another record, the
// same when sample_id_all is set, else zeros.
struct Source {
  std::uint32_t pid = 0;
  std::uint32_t tid = 0;
  std::uint64_t time = 0;  // ns of the clock that the event was opened with
  std::uint64_t id = 0;    // of the event, from ID or IDENTIFIER
  std::uint64_t stream_id = 0;
  std::uint32_t cpu = 0;
};

enum class Mode : std::uint8_t { unknown, kernel, user, hypervisor, guest_kernel, guest_user };

// How the kernel gives a register's width: none means there was no user space to read.
enum class RegisterAbi : std::uint64_t { none = 0, bits32 = 1, bits64 = 2 };

struct Registers {
  std::uint64_t abi = 0;   // RegisterAbi
  std::uint64_t mask = 0;  // which registers `values` has, in the order of its bits
  Words values;            // empty when abi is none

  // The register with the kernel's number `bit`; false when the sample does not have it.
  bool get(unsigned bit, std::uint64_t& value) const;
};

struct Branch {
  std::uint64_t from, to, flags;
};

struct Sample {
  Source source;
  Mode mode = Mode::unknown;
  bool exact_ip = false;    // the instruction that caused the sample, not a later one
  std::uint64_t parts = 0;  // sample_type, so that an absent part and a zero are told apart
  std::uint64_t ip = 0;
  std::uint64_t address = 0;
  std::uint64_t period = 0;
  Words callchain;  // innermost first, with the kernel's context marks (from 2^64 - 4095 on)
  std::span<const std::byte> raw;
  Words branches;  // three words each: from, to, flags
  Registers regs_user;
  std::span<const std::byte> stack_user;  // as much as was copied
  // WEIGHT is one number, the latency in cycles; WEIGHT_STRUCT also puts it into `latency`.
  std::uint64_t weight = 0;
  std::uint32_t latency = 0;      // var1_dw: of the load, in core cycles
  std::uint16_t weight_var2 = 0;  // Intel: instruction latency; others: as documented there
  std::uint16_t weight_var3 = 0;  // Intel: retire latency
  std::uint64_t data_source = 0;  // see data_source.h
  std::uint64_t transaction = 0;
  Registers regs_intr;
  std::uint64_t physical = 0;
  std::uint64_t cgroup = 0;
  std::uint64_t data_page_size = 0;
  std::uint64_t code_page_size = 0;

  bool has(std::uint64_t part) const { return (parts & part) != 0; }
  Branch branch(std::size_t index) const {
    return {branches[index * 3], branches[index * 3 + 1], branches[index * 3 + 2]};
  }
};

// MMAP and MMAP2.
struct Mapped {
  Source source;
  Mode mode = Mode::unknown;
  std::uint32_t pid = 0, tid = 0;
  std::uint64_t start = 0, length = 0, page_offset = 0;
  bool data = false;        // the mapping is not executable
  bool has_detail = false;  // MMAP2: the parts down to `flags` are known
  std::uint32_t major = 0, minor = 0;
  std::uint64_t inode = 0, generation = 0;
  std::span<const std::byte> build_id;  // instead of the device and inode; at most 20 bytes
  std::uint32_t protection = 0, flags = 0;
  std::string_view path;
};

struct Named {  // COMM
  Source source;
  std::uint32_t pid = 0, tid = 0;
  bool exec = false;
  std::string_view name;
};

struct Forked {
  Source source;
  std::uint32_t pid = 0, parent_pid = 0, tid = 0, parent_tid = 0;
  std::uint64_t time = 0;
};

struct Exited {
  Source source;
  std::uint32_t pid = 0, parent_pid = 0, tid = 0, parent_tid = 0;
  std::uint64_t time = 0;
};

struct Lost {  // LOST and LOST_SAMPLES
  Source source;
  std::uint64_t id = 0;
  std::uint64_t count = 0;
  bool samples = false;  // LOST_SAMPLES: only samples were lost
};

struct Throttled {  // THROTTLE and UNTHROTTLE
  Source source;
  std::uint64_t time = 0, id = 0, stream_id = 0;
  bool begins = false;
};

struct Switched {
  Source source;
  bool out = false;        // the thread leaves the CPU
  bool preempted = false;  // ... while it could have gone on
  // SWITCH_CPU_WIDE: the one that comes, or that went; otherwise zeros.
  std::uint32_t other_pid = 0, other_tid = 0;
};

struct Other {
  Source source;
  std::uint32_t type = 0;
  std::span<const std::byte> payload;  // with the Source at its end
};

using Event = std::variant<Sample, Mapped, Named, Forked, Exited, Lost, Throttled, Switched, Other>;

inline constexpr std::size_t kHeaderBytes = 8;
struct RecordHeader {
  std::uint32_t type = 0;
  std::uint16_t misc = 0;
  std::uint16_t size = 0;  // bytes, with the header
};

// Of the first eight bytes of `bytes`, which must be there.
RecordHeader header_of(std::span<const std::byte> bytes);

// `record` begins with a header and holds at least as many bytes as that says; what is behind them
// is not looked at.
Result<Event> parse(std::span<const std::byte> record, const Layout& layout);

// A name for messages: "sample", "mmap2", "type 4711".
std::string type_name(std::uint32_t type);

}  // namespace stallscope::sources
