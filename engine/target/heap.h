// SPDX-License-Identifier: Apache-2.0
// Heap blocks from birth to death.
#pragma once

#include <cstdint>
#include <vector>

#include "base/flat_map.h"
#include "stallscope_tables.h"

namespace stallscope::target {

class Heap {
 public:
  struct Block {
    std::uint64_t size = 0;
    std::uint64_t born = 0;
    std::uint32_t thread = 0;
    std::uint32_t site = 0;
    std::uint32_t kind = 0;  // ss_alloc_kind
  };

  // A block at an address that is still taken means that a free went unseen: the old one is buried.
  // The bytes of that one, else 0.
  std::uint64_t allocate(std::uint64_t address, const Block& block, ObjectTable& gone);
  // Bytes that are free now; 0 when no block was there.
  std::uint64_t release(std::uint64_t address, std::uint64_t when, ObjectTable& gone);
  // realloc failed after it had reported the block as freed: it lives on, as a second row. Whether
  // that was the block released last.
  bool revive(std::uint64_t address, std::uint64_t when);

  // By ascending address, so that two runs give the same table.
  template <typename Visitor>
  void for_each_live(Visitor&& visit) const {
    for (std::uint64_t address : live_addresses()) visit(address, *live_.find(address));
  }
  void fill_live(ObjectTable& table) const;

  std::uint64_t allocations() const { return allocations_; }
  std::uint64_t frees() const { return frees_; }
  std::uint64_t unmatched_frees() const { return unmatched_frees_; }
  std::uint64_t unseen_frees() const { return unseen_frees_; }
  std::uint64_t peak_bytes() const { return peak_bytes_; }
  void restart_counts();  // once a forked child knows what it inherited

 private:
  std::vector<std::uint64_t> live_addresses() const;
  void bury(std::uint64_t address, const Block& block, std::uint64_t when,
            ObjectTable& table) const;

  FlatMap<Block> live_;  // by address
  Block last_freed_{};
  std::uint64_t last_freed_address_ = 0;
  std::uint64_t live_bytes_ = 0;
  std::uint64_t peak_bytes_ = 0;
  std::uint64_t allocations_ = 0;
  std::uint64_t frees_ = 0;
  std::uint64_t unmatched_frees_ = 0;
  std::uint64_t unseen_frees_ = 0;
};

}  // namespace stallscope::target
