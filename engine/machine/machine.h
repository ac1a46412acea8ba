// SPDX-License-Identifier: Apache-2.0
// A simulated memory hierarchy: caches, TLBs, prefetchers, page mapping. Counts and latencies, no
// time: accesses come one after the other and each is finished before the next.
//
// By default it counts as cachegrind does. An outer level is looked up only when the level inside
// it missed; caches allocate on writes; levels fill independently of each other. An access that
// crosses lines is one access; when any of its lines misses, the access misses, and the whole
// access is looked up at the next level. See docs/models/machine.md for what is left out.
//
// One thread drives a machine. It never fails once made.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/result.h"
#include "machine/access.h"
#include "machine/config.h"
#include "machine/first_touches.h"
#include "machine/level.h"
#include "machine/mapping.h"

namespace stallscope::machine {

// What the hot path looks at, and nothing else: whether an access changes anything but a counter.
struct Front {
  const std::uint64_t* lines;  // settled ones, by set
  std::uint64_t lines_mask;
  const std::uint64_t* pages;  // settled ones, by set of the TLB
  std::uint64_t pages_mask;
  std::uint64_t offset_mask;  // within a line
  std::uint32_t line_bits;
  std::uint32_t page_bits;

  // Not 0: the line or page is not settled, or the access crosses into another line.
  // `reads` is 1 for a load or fetch, 0 for what writes, which needs a line that is dirty already:
  // a settled tag is the line's key, plus 1 when dirty.
  std::uint64_t differs(std::uint64_t address, std::uint64_t size_less_one,
                        std::uint64_t reads) const {
    const std::uint64_t line = address >> line_bits, page = address >> page_bits;
    const std::uint64_t of_line = ((lines[line & lines_mask] ^ key_of(line)) | reads) ^ 1;
    const std::uint64_t of_page = pages[page & pages_mask] ^ key_of(page);
    return of_line | of_page | ((address & offset_mask) + size_less_one) >> line_bits;
  }
  bool line_differs(std::uint64_t address, std::uint64_t size_less_one, std::uint64_t reads) const {
    const std::uint64_t line = address >> line_bits;
    return ((((lines[line & lines_mask] ^ key_of(line)) | reads) ^ 1) |
            ((address & offset_mask) + size_less_one) >> line_bits) != 0;
  }
  bool page_differs(std::uint64_t first, std::uint64_t last) const {
    const std::uint64_t page = first >> page_bits;
    return pages[page & pages_mask] != key_of(page) || last >> page_bits != page;
  }
};

// Of the pages of a machine that has no TLB: every access is to the same one.
constexpr std::uint32_t kOnePageBits = 63;

class Machine {
 public:
  Machine(const Machine&) = delete;  // its ports point into it
  Machine& operator=(const Machine&) = delete;

  // One access of the program: `size` bytes (at least 1) at a virtual address. Inlined: an access
  // to the settled line of its set costs a few instructions and calls nothing.
  template <typename Probe>
  void data(std::uint64_t address, std::uint32_t size, AccessKind kind, Probe& probe) {
    access(data_, address, size, kind, probe);
  }

  // The same for a run of accesses, for those who count accesses themselves.
  template <typename Probe>
  void data_run(const Step* steps, const std::uint64_t* addresses, std::uint32_t count,
                Probe& probe);

  // One fetch of `bytes` bytes of code, counted as one access.
  template <typename Probe>
  void fetch(std::uint64_t address, std::uint32_t bytes, Probe& probe) {
    access(fetch_, address, bytes, AccessKind::fetch, probe);
  }

  const MachineConfig& config() const { return config_; }
  // `cache` and `tlb` are indices into the configuration.
  Counters cache_counters(std::uint32_t cache) const;
  Counters tlb_counters(std::uint32_t tlb) const;
  void reset_counters();
  // No store has come yet, so that no line is dirty.
  bool clean() const {
    return !stored_ && data_.accesses[static_cast<unsigned>(AccessKind::store)] == 0 &&
           data_.accesses[static_cast<unsigned>(AccessKind::modify)] == 0;
  }
  // Memory is mapped, or unmapped, which makes it anonymous memory that nobody has touched.
  void map(std::uint64_t address, std::uint64_t length, bool file) {
    if (config_.mapping.cleared) touches_.map(address, length, file);
  }
  // First bytes of the lines (virtual addresses) that a cache holds, in no particular order.
  std::vector<std::uint64_t> resident(std::uint32_t cache);

 private:
  friend class Passes;
  friend Result<std::unique_ptr<Machine>> make_machine(const MachineConfig& config);
  explicit Machine(const MachineConfig& config);

  struct Path {
    Level* levels[kMaxLevels]{};
    std::uint32_t depth = 0;
    void add(Level* level) { levels[depth++] = level; }
  };

  // Where data or instructions enter. What the hot path reads stands first.
  struct Port {
    Front front{};
    std::uint64_t accesses[kKinds]{};
    // Its caches all allocate on writes and write back, none is exclusive or has prefetchers, and
    // memory is mapped as it is and not cleared: an access within one line needs no bookkeeping on
    // its way.
    bool plain = true;
    Path caches;
    Path tlbs;
  };

  // One access, or one prefetch, on its way outwards.
  struct Walk {
    Path& path;
    std::uint64_t address;  // that the program accessed
    AccessKind kind;
    Cause cause;
    std::uint32_t start;        // depth at which it begins
    std::uint32_t counted = 0;  // depths where the access is counted already
    std::uint32_t missed = 0;   // depths where it is counted as a miss already
    std::uint32_t noticed = 0;  // depths whose prefetchers have something to see
    std::uint32_t served = 0;   // depth that had the last line found
    bool writing = false;       // no level has taken the store yet
    Level* holder = nullptr;    // cache that was just filled, and takes what an exclusive one has
    std::uint64_t moving = kEmpty;  // victim on its way into the next, exclusive, level
  };

  template <typename Probe>
  void access(Port& port, std::uint64_t address, std::uint32_t size, AccessKind kind, Probe& probe);
  template <typename Probe>
  void access_slowly(Port& port, std::uint64_t address, std::uint32_t size, AccessKind kind,
                     Probe& probe);
  template <typename Probe>
  void report_served(const Port& port, std::uint32_t depth, std::uint32_t translation,
                     std::uint64_t address, AccessKind kind, Probe& probe) const;
  static Touched touch_plainly(Level& level, std::uint64_t address, std::uint64_t flags);
  template <typename Probe>
  static std::uint32_t miss_plainly(Path& path, std::uint64_t address, AccessKind kind,
                                    std::uint64_t victim, Probe& probe);
  // Whether the kernel had to clear a page for this access; its lines are in the caches then.
  template <typename Probe>
  bool clear_first(std::uint64_t address, std::uint64_t last, Probe& probe);
  template <typename Probe>
  std::uint32_t translate(Port& port, std::uint64_t first, std::uint64_t last, AccessKind kind,
                          Probe& probe);
  template <typename Probe>
  void walk_range(Walk& walk, std::uint64_t first, std::uint64_t last, Probe& probe);
  template <typename Probe>
  void walk_outwards(Walk& walk, std::uint64_t first, std::uint64_t last, Probe& probe);
  template <typename Probe>
  bool look_up(Walk& walk, std::uint32_t depth, std::uint64_t first, std::uint64_t last,
               Probe& probe);
  template <typename Probe>
  bool look_up_line(Walk& walk, std::uint32_t depth, std::uint64_t virtual_line, Probe& probe);
  template <typename Probe>
  bool look_up_exclusive(Walk& walk, std::uint32_t depth, std::uint64_t virtual_line, Probe& probe);
  template <typename Probe>
  void miss(Walk& walk, std::uint32_t depth, std::uint64_t virtual_line, std::uint64_t victim,
            bool filled, Probe& probe);
  template <typename Probe>
  void move_in(Walk& walk, std::uint32_t depth, Probe& probe);
  template <typename Probe>
  void run_prefetchers(Walk& walk, std::uint32_t depth, Probe& probe);

  // The caches inside `level` lose what it lost; whether one of them had it dirty.
  static bool invalidate_inside(Level& level, std::uint64_t line);
  // The nearest cache from `depth` outwards that has the address takes the dirty line.
  static void write_back(Path& path, std::uint32_t depth, std::uint64_t physical);
  // A victim leaves the level at `depth`; whether it was dirty. `moving` is it, where the next
  // level is exclusive.
  static bool leave(Path& path, std::uint32_t depth, std::uint64_t victim, std::uint64_t& moving);
  std::uint64_t physical_line(const Level& level, std::uint64_t virtual_line) {
    return mapping_.identity() ? virtual_line
                               : mapping_.physical(level.address_of(virtual_line)) >> level.bits;
  }
  std::uint64_t virtual_address(const Level& level, std::uint64_t line) {
    return mapping_.virtual_of(level.address_of(line));
  }
  void add_caches();
  void add_tlbs();
  void add_prefetchers();
  void open(Port& port);

  MachineConfig config_;
  Mapping mapping_;
  FirstTouches touches_;
  bool by_line_ = false;  // has an exclusive cache: lines of one access go their own ways
  Port data_{}, fetch_{};
  bool stored_ = false;  // before the counters were reset
  std::vector<std::unique_ptr<Level>> caches_, tlbs_;
  std::vector<std::uint64_t> wanted_;  // by prefetchers, kept for its storage
};

// A machine of this configuration, or an error that names the first wrong value:
// `L2.ways = 12: 1 MiB / 64 B / 12 ways is not a whole number of sets`.
Result<std::unique_ptr<Machine>> make_machine(const MachineConfig& config);

}  // namespace stallscope::machine

#include "machine/walk.h"
