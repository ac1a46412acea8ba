// SPDX-License-Identifier: Apache-2.0
// Reads the allocation log of a process image (capture/preload), while the program runs or after
// it. The file is another program's to write at any time, so it is never mapped: every part is
// copied by a bounded read and checked before it is believed.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/result.h"
#include "base/units.h"

namespace stallscope::sources {

struct HeapBlock {
  std::uint32_t site;
  bool is_large;
  Address start;
  std::uint64_t size;
};

// Whose block an address is in, when it has no mark that is sure to be its own.
struct HeapGuess {
  std::uint32_t site;
  double confidence;  // below 1
};

struct HeapSite {
  std::uint32_t number;
  std::vector<Address> frames;          // return addresses, innermost first
  std::uint64_t blocks = 0, bytes = 0;  // made so far
};

struct LargeEvent {
  std::uint64_t time;  // ns of CLOCK_MONOTONIC
  bool is_birth;       // else a death
  Address address;
  std::uint64_t size;
  std::uint32_t site, thread;
};

// What the log could not hold; see capture/preload/heap_log_layout.h.
struct HeapLost {
  std::uint64_t without_mark, without_site, without_thread, without_record, without_live;
};

struct HeapImage {
  std::uint32_t pid, number;
  std::uint32_t parent_pid, parent_number;  // of the image that forked it: earlier blocks are there
  std::uint64_t begun;                      // ns of CLOCK_MONOTONIC
  std::uint64_t unwound, walked;            // stacks
  std::uint64_t passed;                     // small blocks that were not logged
};

// One thread at a time.
class HeapLog {
 public:
  static Result<HeapLog> open(const std::string& path);
  HeapLog(HeapLog&& other) noexcept;
  HeapLog& operator=(HeapLog&& other) noexcept;
  ~HeapLog();

  // The live block that holds an address; none when no block does, or none that the log is sure of.
  std::optional<HeapBlock> find(Address address);
  // The small block that held it last, of those that are free now.
  std::optional<HeapBlock> find_freed(Address address);
  // Whether small blocks were let pass: what is found by none of these may still be in one.
  bool is_sampled();
  // By the marks there and beside it, of blocks that live and that are gone.
  std::optional<HeapGuess> guess(Address address);

  // Births and deaths of large blocks since the last call, in time order. Their places in the log
  // become free for the program, when the file may be written.
  std::vector<LargeEvent> poll();

  // Every site that made a block, by number.
  Result<std::vector<HeapSite>> sites();

  HeapLost lost();
  HeapImage image();

 private:
  struct Counts {
    std::uint32_t sites = 0, regions = 0, slots = 0, live = 0, live_version = 0;
    bool is_sampled = false;
  };

  HeapLog(int file, std::string path) : file_(file), path_(std::move(path)) {}

  Status check();
  void refresh();
  void refresh_regions(std::uint32_t count);
  void refresh_live();
  void take_ring(std::uint32_t slot, std::vector<LargeEvent>& events);
  void add_hot_counts(std::vector<HeapSite>& sites);
  using IsStart = bool (*)(std::uint16_t mark);
  std::optional<HeapBlock> find_small(std::uint64_t address, IsStart is_start) const;
  bool is_stale(std::uint64_t address) const;
  std::vector<std::uint16_t> marks_between(std::uint64_t first, std::uint64_t last) const;
  std::optional<std::uint64_t> start_between(std::uint64_t first, std::uint64_t last,
                                             IsStart is_start) const;
  void read_marks(std::uint64_t granule, std::uint16_t* marks, std::uint64_t count) const;
  bool read(std::uint64_t offset, void* to, std::size_t bytes) const;
  Error damaged(const std::string& why) const;

  int file_ = -1;
  std::string path_;
  Counts counts_;
  std::unordered_map<std::uint32_t, std::uint32_t> tables_;  // by region
  std::map<std::uint64_t, HeapBlock> large_;                 // by start
  std::vector<std::uint64_t> taken_;                         // by slot
};

}  // namespace stallscope::sources
