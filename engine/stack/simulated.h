// SPDX-License-Identifier: Apache-2.0
// Drives a policy: batches of pages are numbered first, then accessed, each with its hints ahead,
// so that neither waits for memory.
#pragma once

#include <algorithm>
#include <array>

#include "stack/growing.h"
#include "stack/numbering.h"
#include "stack/replacement.h"

namespace stallscope::stack {

inline constexpr std::uint32_t kMostPages = 1u << 27;  // slots of lists fit into 29 bits

template <typename Policy>
class Simulated final : public Replacement {
 public:
  explicit Simulated(std::uint32_t memory) : policy_(memory) {}

  Status append(std::span<const std::uint64_t> pages,
                std::span<const std::uint8_t> writes) override {
    std::array<std::uint32_t, kBatch> numbers;
    for (std::size_t from = 0; from < pages.size(); from += kBatch) {
      const std::size_t to = std::min(from + kBatch, pages.size());
      numbering_.number(pages, from, to, numbers.data());
      if (numbering_.size() > kMostPages)
        return Error{"too many pages for a simulation of replacement",
                     "there are more than " + std::to_string(kMostPages), "use larger pages"};
      policy_.reserve(numbering_.size());
      const std::span batch(numbers.data(), to - from);
      if (writes.empty())
        run(batch);
      else
        run_with_writes(batch, writes.subspan(from, batch.size()));
    }
    return Done{};
  }
  Misses misses() override {
    Misses all = misses_;
    all.bytes = numbering_.bytes() + policy_.bytes() + dirty_.bytes();
    return all;
  }

 private:
  static constexpr std::size_t kBatch = 1024, kAhead = 16;

  void run(std::span<const std::uint32_t> batch) {
    std::uint64_t misses = 0, evictions = 0;
    for (std::size_t i = 0; i < batch.size(); ++i) {
      if (i + kAhead < batch.size()) policy_.prefetch(batch[i + kAhead]);
      if (policy_.access(batch[i])) continue;
      ++misses;
      evictions += policy_.victim() != kNone;
    }
    misses_.references += batch.size();
    misses_.misses += misses;
    misses_.evictions += evictions;
  }
  void run_with_writes(std::span<const std::uint32_t> batch, std::span<const std::uint8_t> writes) {
    dirty_.reserve(numbering_.size());
    for (std::size_t i = 0; i < batch.size(); ++i) {
      if (i + kAhead < batch.size()) policy_.prefetch(batch[i + kAhead]);
      if (!policy_.access(batch[i])) {
        ++misses_.misses;
        misses_.write_misses += writes[i] != 0;
        if (const std::uint32_t victim = policy_.victim(); victim != kNone) {
          ++misses_.evictions;
          misses_.writebacks += dirty_[victim];
          dirty_[victim] = false;
        }
      }
      if (writes[i]) dirty_[batch[i]] = true;
    }
    misses_.references += batch.size();
  }

  Numbering numbering_;
  Policy policy_;
  Growing<bool> dirty_;
  Misses misses_;
};

}  // namespace stallscope::stack
