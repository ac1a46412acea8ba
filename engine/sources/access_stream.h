// SPDX-License-Identifier: Apache-2.0
// Turns a trace of addresses that another tool made into our stream, so that whatever reads kept
// traces reads it too. Each instruction with the accesses that it made becomes a block of its own:
// where the tool's blocks of code began and ended is not known, and nothing depends on it.
//
// Single thread. Memory is bounded: past kMostBlocks different instructions, further ones count as
// one without an address.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/result.h"
#include "sources/areas.h"
#include "stream/code_table.h"
#include "stream/writer.h"

namespace stallscope::sources {

struct TracedAccess {
  std::uint64_t address;
  std::uint32_t size;  // bytes, at least 1
  std::uint8_t kind;   // ss_op_kind
  bool operator==(const TracedAccess&) const = default;
};

// A line of /proc/PID/maps.
struct TracedMapping {
  std::uint64_t start, end, offset;
  std::uint32_t access;  // 1 read, 2 write, 4 execute
  std::string path;
};

struct TracedTotals {
  std::uint64_t instructions = 0;
  std::uint64_t accesses = 0;
  std::uint64_t threads = 0;
  std::uint64_t unplaced = 0;  // instructions whose address was too large, or one too many
};

class AccessStream {
 public:
  static constexpr std::size_t kMostBlocks = 1U << 21;
  static constexpr std::size_t kMostThreads = 1U << 16;
  static constexpr std::size_t kMostAtOnce = 1024;     // accesses of one instruction
  static constexpr std::uint32_t kLargest = 1U << 16;  // bytes of one access

  // A new file at `path`. `command` is what the trace is of, as far as it is known.
  static Result<std::unique_ptr<AccessStream>> create(const std::string& path,
                                                      const std::vector<std::string>& command,
                                                      const std::vector<TracedMapping>& mappings);
  static Result<std::unique_ptr<AccessStream>> create(std::unique_ptr<stream::Output> output,
                                                      const std::vector<std::string>& command,
                                                      const std::vector<TracedMapping>& mappings);

  // An instruction of `length` bytes (1 when not known) at `ip` (0 when not known) was executed by
  // `thread`, which is any number, and made `accesses`, at most kMostAtOnce.
  Status execute(std::uint64_t ip, std::uint32_t length, std::uint64_t thread,
                 std::span<const TracedAccess> accesses);
  Status close();

  const TracedTotals& totals() const { return totals_; }
  std::uint64_t bytes() const { return writer_.bytes(); }
  // Where the accesses fell that lie in no given mapping.
  std::vector<Areas::Area> areas() const { return areas_.found(); }

 private:
  AccessStream(std::unique_ptr<stream::Output> output);
  Status record(unsigned tag, std::uint32_t thread, std::initializer_list<std::uint64_t> fields,
                std::string_view tail = {});
  Status run_thread(std::uint64_t thread);
  Result<std::uint32_t> exit_of(std::uint64_t ip, std::uint32_t length,
                                std::span<const TracedAccess> accesses);
  Result<std::uint32_t> add_block(std::uint64_t ip, std::uint32_t length,
                                  std::span<const TracedAccess> accesses);
  bool is(std::uint32_t exit, std::uint64_t ip, std::uint32_t length,
          std::span<const TracedAccess> accesses) const;

  stream::CodeTable code_;
  stream::TraceWriter writer_;
  std::vector<std::uint32_t> recent_;  // exits by the end of their address
  std::unordered_multimap<std::uint64_t, std::uint32_t> exits_;  // by hash
  std::unordered_map<std::uint64_t, std::uint32_t> threads_;     // theirs to ours
  std::uint64_t running_ = 0;
  std::uint32_t thread_ = 0;
  std::vector<std::uint64_t> words_;      // of a record being made
  std::vector<std::uint64_t> addresses_;  // of an execution
  Areas areas_;
  TracedTotals totals_;
};

}  // namespace stallscope::sources
