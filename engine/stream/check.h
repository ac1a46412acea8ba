// SPDX-License-Identifier: Apache-2.0
// The invariant checker: what must hold in every stream, whichever source made it. A sink of
// stream::parse and of TraceReader::for_each; it never stops the reading.
//
// Not checked here, since a stream that breaks it cannot be read at all: that exits are defined
// before they are taken, and that a block's counts, lengths and bytes fit each other.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "base/result.h"
#include "stallscope_records.h"
#include "stream/chunk.h"
#include "stream/code_table.h"
#include "stream/reader.h"

namespace stallscope::stream {

enum class Severity { error, note };

struct Violation {
  Severity severity;
  const char* rule;            // its short name
  std::uint64_t item;          // block executions and records in front of it
  std::uint64_t instructions;  // executed in front of it, as far as the stream says
  std::string text;            // a sentence
};

class Checker {
 public:
  static constexpr std::size_t kMaxKept = 100;

  // `code` is the table of the parse or reader that feeds this; `mode` has SS_MODE_* bits.
  Checker(const CodeTable& code, unsigned mode) : code_(code), mode_(mode) {}

  void on_block(std::uint32_t exit, const Exit& info, const std::uint64_t* addresses);
  Status on_record(unsigned tag, const std::uint64_t* words, std::uint32_t count);

  // Once, behind the last record. `told` is what END says; `counts` are the counters, one for each
  // exit, of a run that counts.
  void finish(const std::optional<Totals>& told, std::span<const std::uint64_t> counts);

  // For what is found from outside: a file that cannot be read.
  void report(Severity severity, const char* rule, std::string text);

  // The first kMaxKept; the numbers count all.
  const std::vector<Violation>& violations() const { return violations_; }
  std::uint64_t errors() const { return errors_; }
  std::uint64_t notes() const { return notes_; }
  const Totals& seen() const { return seen_; }

 private:
  struct Thread {
    bool exited = false;
    std::uint32_t handlers = 0;  // signal handlers entered and not left
    std::vector<std::string> regions;
  };

  void check_start(const ss_process_start& record);
  void check_time(unsigned tag, std::uint64_t when);
  void check_place(unsigned tag);
  void check_fields(unsigned tag, const std::uint64_t* words, std::string_view tail);
  void check_block(const ss_block& record);
  void check_thread_start(std::uint32_t thread);
  void check_thread_exit(std::uint32_t thread);
  void check_switch(std::uint32_t thread);
  void check_alloc(const ss_alloc& record);
  void check_revival(std::uint64_t address);
  void check_free(std::uint64_t address);
  void check_signal(const ss_signal& record);
  void check_mark(const ss_mark& record, std::string_view name);
  void check_counts(std::span<const std::uint64_t> counts);

  const CodeTable& code_;
  unsigned mode_;
  std::uint64_t item_ = 0;
  std::uint64_t when_ = 0;        // of the last record
  std::uint64_t block_when_ = 0;  // of the last `block` record, which come earlier than they were
  std::uint64_t first_when_ = 0;  // a forked process begins where its parent was
  bool started_ = false;
  bool forked_ = false;
  bool ended_ = false;
  Totals seen_;
  std::unordered_map<std::uint32_t, Thread> threads_;
  std::map<std::uint64_t, std::uint64_t> heap_;      // live blocks: first byte -> bytes, at least 1
  std::pair<std::uint64_t, std::uint64_t> freed_{};  // the block that was freed last
  std::unordered_set<std::uint64_t> sites_;
  std::vector<Violation> violations_;
  std::uint64_t errors_ = 0;
  std::uint64_t notes_ = 0;
};

// Checks a whole trace: reads it, and what cannot be read is a violation too.
Checker check_trace(TraceReader& reader, unsigned mode);

}  // namespace stallscope::stream
