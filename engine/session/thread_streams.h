// SPDX-License-Identifier: Apache-2.0
// The accesses of a recording, thread by thread, so that a simulated system can run the threads as
// it schedules them. What one thread has to wait for of another stays: its creation, wake-ups of
// futexes, and barriers that the program marks as a region named `barrier`. Who got a lock first
// does not: a lock that nobody waited for leaves no trace.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "probes/range_set.h"

namespace stallscope::session {

enum class ThreadEvent : std::uint8_t { load, store, modify, special };
enum class Special : std::uint8_t {
  compute,  // number: instructions
  barrier,  // number: of the process
  wait,     // number: index into ThreadStream::waits
  when,     // number: index into ThreadStream::whens
};

// One event in a word: kind, instructions before it and its own, then a line or something special.
struct Packed {
  static constexpr unsigned kGapBits = 14, kLineBits = 48;
  static constexpr std::uint64_t kMostGap = (1u << kGapBits) - 1;

  static std::uint64_t of(ThreadEvent kind, std::uint64_t gap, std::uint64_t line) {
    return static_cast<std::uint64_t>(kind) << 62 | gap << kLineBits |
           (line & ((std::uint64_t{1} << kLineBits) - 1));
  }
  static std::uint64_t of(Special what, std::uint64_t number) {
    return of(ThreadEvent::special, 0, number << 4 | static_cast<std::uint64_t>(what));
  }
  static ThreadEvent kind(std::uint64_t word) { return static_cast<ThreadEvent>(word >> 62); }
  static std::uint64_t gap(std::uint64_t word) { return word >> kLineBits & kMostGap; }
  static std::uint64_t line(std::uint64_t word) {
    return word & ((std::uint64_t{1} << kLineBits) - 1);
  }
  static Special special(std::uint64_t word) { return static_cast<Special>(word & 15); }
  static std::uint64_t number(std::uint64_t word) { return line(word) >> 4; }
};

struct ThreadStream {
  // Up to event `index` of thread `thread`, counted over all programs.
  struct Wait {
    std::uint32_t thread;
    std::size_t index;
  };
  // A condition of the program holds, or watched memory was accessed.
  struct When {
    std::uint64_t name, value;  // name: as when_name() has it
    bool watched = false;
    bool known = true;  // the value
  };
  std::uint32_t program;  // which recording
  std::uint32_t number;   // within its process
  std::vector<std::uint64_t> events;
  std::vector<std::uint64_t> values;  // by event: what an access read or wrote; empty: unknown
  std::vector<bool> known;            // of these, all bytes
  std::vector<Wait> waits;
  std::vector<When> whens;
};

struct ThreadStreams {
  std::vector<ThreadStream> threads;
  std::vector<std::uint32_t> parties;  // threads at each barrier of a program
  std::uint64_t instructions = 0, accesses = 0;
};

// A number for the name of a condition, which detectors match as an address: FNV-1a.
std::uint64_t when_name(std::string_view name);

// What monitors are told of memory.
struct WatchedMemory {
  std::vector<probes::RangeSet::Range> ranges;
  std::vector<std::uint64_t> names;  // by watch: as when_name() has it
  std::uint8_t kind = 3;             // 1 reads, 2 writes, 3 both
  std::string values;                // the file beside the trace; empty: no value is known
  bool all_values = false;           // of every access, not only of watched ones
};

// Appends the threads of a recording. Lines of `line_bits` bits; those of different programs are
// never the same. An error when there are more than `most` accesses.
Status load_threads(const std::string& path, std::uint32_t program, std::uint32_t line_bits,
                    std::uint64_t most, const WatchedMemory& watched, ThreadStreams& into);

}  // namespace stallscope::session
