// SPDX-License-Identifier: Apache-2.0
// What is kept of lines that go from cache to cache: for all of them a few numbers, and for those
// that are followed who touches which bytes.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <tuple>
#include <vector>

#include "base/flat_map.h"
#include "machine/coherence.h"
#include "probes/buckets.h"
#include "stallscope_tables.h"

namespace stallscope::session {

// One access to (a part of) a line.
struct LineAccess {
  std::uint64_t address;
  std::uint32_t size;  // within the line
  std::uint32_t thread;
  std::uint32_t operation;
  bool writes;
};

constexpr bool is_coherent(machine::Source source) {
  return machine::is_remote_cache(source) || source == machine::Source::peer ||
         source == machine::Source::upgrade;
}

class SharedLines {
 public:
  // Another cache had it or had to hear of it; `waited` cycles.
  void note(std::uint64_t line, const LineAccess& access, bool remote, std::uint64_t waited,
            probes::Buckets& buckets);
  void fill(std::uint32_t line_bits, SharedLineTable& table) const;

 private:
  struct Note {
    std::uint64_t remote = 0, fills = 0, cycles = 0, threads = 0;
    std::uint64_t address = 0, start = 0;
    std::uint32_t bucket = 0;
  };
  FlatMap<Note> notes_;
};

// A miss is false when none of the accessed bytes was written by another thread since this thread
// had accessed the line before.
class FollowedLines {
 public:
  FollowedLines(const std::vector<std::uint64_t>& addresses, std::uint32_t line_bits);

  bool empty() const { return lines_.empty(); }
  // Cheap; may be true for a line that is not followed.
  bool maybe(std::uint64_t line) const { return sieve_[line & (kSieve - 1)]; }
  void access(std::uint64_t line, const LineAccess& access, bool coherent, std::uint64_t waited);
  void fill(SharedAccessTable& table) const;

 private:
  static constexpr std::size_t kSieve = 1 << 16;
  struct Followed {
    std::vector<std::uint64_t> written;           // when, by byte
    std::vector<std::uint32_t> writer;            // by byte
    std::map<std::uint32_t, std::uint64_t> seen;  // last access, by thread
  };
  struct Count {
    std::uint64_t count = 0, misses = 0, false_misses = 0, cycles = 0;
  };
  using Key = std::tuple<std::uint32_t, std::uint32_t, std::uint32_t, std::uint32_t, std::uint32_t,
                         bool>;  // line, thread, operation, offset, size, writes

  bool is_false(const Followed& line, std::uint32_t offset, const LineAccess& access) const;

  std::uint32_t line_bits_;
  std::uint64_t now_ = 0;
  std::vector<std::uint8_t> sieve_;
  FlatMap<std::uint32_t> index_;
  std::vector<std::uint64_t> addresses_;
  std::vector<Followed> lines_;
  std::map<Key, Count> counts_;
};

}  // namespace stallscope::session
