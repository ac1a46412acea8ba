// SPDX-License-Identifier: Apache-2.0
// Branch predictors. Two kinds:
//
//   tournament  a table of 16,384 two-bit counters by address, another by address and the last 11
//               outcomes, a third that chooses between them; targets of indirect branches by
//               address alone (after the PowerPC 970)
//   tage        a table of 8,192 two-bit counters and four tagged tables of 1,024 entries that are
//               looked up with the last 8, 20, 50 and 120 outcomes, the longest that matches wins;
//               targets of indirect branches by address and the path there
//
// Both have a stack of return addresses. Direct jumps and calls are always right. Not modelled: a
// branch target buffer that forgets direct branches, outcomes that are not known yet when the next
// prediction is made (tables learn at once).
#pragma once

#include <cstdint>
#include <vector>

#include "pipeline/core.h"

namespace stallscope::pipeline {

class Predictor {
 public:
  explicit Predictor(const CoreConfig& config);

  // Each predicts, learns, and says whether the prediction was right.
  bool conditional(std::uint64_t address, bool taken);
  bool indirect(std::uint64_t address, std::uint64_t target);
  bool returns(std::uint64_t target);
  // A call, direct or not, that comes back to this address.
  void call(std::uint64_t return_address);
  // A taken branch of any kind is part of the path.
  void passed(std::uint64_t target) { path_ = path_ << 3 ^ target >> 2; }

 private:
  static constexpr unsigned kTables = 4;
  struct Entry {
    std::uint16_t tag = 0;
    std::int8_t counter = 0;  // taken from 0 up; -4 to 3
    std::uint8_t useful = 0;
  };
  struct Folded {
    std::uint32_t value = 0;
    std::uint32_t length = 0, bits = 0;
    void update(unsigned in, unsigned out);
  };
  struct Target {
    std::uint64_t address = 0, target = 0;
  };

  bool tournament(std::uint64_t address, bool taken);
  bool tage(std::uint64_t address, bool taken);
  void allocate(unsigned above, bool taken, const std::uint32_t* indices,
                const std::uint16_t* tags);
  void remember(bool taken);

  bool is_tage_;
  std::vector<std::uint8_t> base_, global_, choice_;  // two-bit counters
  std::vector<Entry> tables_[kTables];
  Folded index_[kTables], tag_[kTables], other_tag_[kTables];
  std::uint8_t past_[256]{};  // outcomes, a ring
  std::uint32_t at_ = 0;
  std::uint64_t outcomes_ = 0;  // the last 64
  std::uint64_t path_ = 0;
  std::uint32_t turn_ = 0;
  std::vector<Target> targets_;
  std::vector<std::uint64_t> stack_;
  std::size_t top_ = 0;
};

}  // namespace stallscope::pipeline
