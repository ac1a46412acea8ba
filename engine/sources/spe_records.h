// SPDX-License-Identifier: Apache-2.0
// Arm SPE's packets as records: one sampled operation each, with what the processor noted of it.
// Records of loads and stores become samples in the layout that the kernel has for precise loads,
// so that everything behind takes them for what they are.
//
// Not used: physical addresses, branch targets, and what the packets say of branches and of
// operations without data.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "sources/perf_events.h"
#include "sources/spe_packets.h"

namespace stallscope::sources {

struct SpeRecord {
  enum class Operation : std::uint8_t { other, load, store };

  Operation operation = Operation::other;
  bool locked = false;                       // atomic, or one of an exclusive pair
  Mode mode = Mode::unknown;                 // by the exception level of the instruction
  std::optional<std::uint64_t> instruction;  // canonical
  std::optional<std::uint64_t> address;      // virtual, canonical, without its tag
  std::uint64_t total = 0;                   // cycles from dispatch to completion
  std::uint64_t issue = 0, translation = 0;  // cycles of these
  std::uint64_t events = 0;                  // SpeEvent, those that happened
  std::optional<std::uint64_t> source;       // where the data came from, as the processor counts
  std::optional<std::uint64_t> thread;       // the kernel's number of it, from the context
  std::optional<std::uint64_t> timer;        // ticks of the generic timer
};

// Bits of an events packet.
enum SpeEvent : std::uint64_t {
  kSpeL1Access = 1U << 2,
  kSpeL1Refill = 1U << 3,
  kSpeTlbAccess = 1U << 4,
  kSpeTlbWalk = 1U << 5,
  kSpeLastLevelAccess = 1U << 8,
  kSpeLastLevelMiss = 1U << 9,
  kSpeRemoteAccess = 1U << 10,
  kSpeL2Access = 1U << 19,
  kSpeL2Miss = 1U << 20,
};

// Puts packets together. A record with something that is no packet is left out, and so is the next
// one: where it begins is found by a byte that looks like the end of a record, and may be wrong.
class SpeReader {
 public:
  using Visit = std::function<void(const SpeRecord&)>;

  // The next bytes; they may begin and end inside a packet.
  void feed(std::span<const std::byte> bytes, const Visit& visit);
  // No more bytes come: what has begun is cut off.
  void end();

  std::uint64_t damaged() const { return damaged_; }  // records that were left out

 private:
  // How many bytes are done; 0: more are needed.
  std::size_t step(std::span<const std::byte> bytes, const Visit& visit);
  void take(const SpePacket& packet, const Visit& visit);
  void finish(const Visit& visit);
  void drop();

  SpeRecord record_;
  bool begun_ = false;     // record_ has something
  bool lost_ = false;      // nothing is known until a record ends
  bool doubtful_ = false;  // the record that comes next is left out
  std::uint64_t damaged_ = 0;
  std::uint64_t offset_ = 0;     // of what comes next
  std::vector<std::byte> rest_;  // the front of a packet
};

// Who ran when a record was made, and on what.
struct SpeOrigin {
  std::uint32_t pid = 0, tid = 0, cpu = 0;
  std::uint64_t time = 0;    // nanoseconds
  std::uint64_t period = 1;  // operations from sample to sample
  std::uint64_t midr = 0;    // which processor; 0: not known
};

// What such samples have. With sample_id_all other records of the kernel have their parts too.
inline constexpr std::uint64_t kSpeSampleType = kSampleIp | kSampleTid | kSampleTime |
                                                kSampleAddress | kSampleCpu | kSamplePeriod |
                                                kSampleWeight | kSampleDataSource;

// Whether a record tells of data: only such records become samples.
bool is_access(const SpeRecord& record);

// Where the data came from, in the kernel's layout (data_source.h). What a source packet means is
// known of Arm's own cores; of others the events tell what they can.
std::uint64_t data_source_of(const SpeRecord& record, std::uint64_t midr);

// Adds a sample of kSpeSampleType with the header's type `type`. Its weight is how long the access
// took once it was issued: what it waited for its operands is somebody else's latency.
void append_sample(const SpeRecord& record, const SpeOrigin& origin, std::uint32_t type,
                   std::vector<std::byte>& out);

}  // namespace stallscope::sources
