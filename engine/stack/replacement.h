// SPDX-License-Identifier: Apache-2.0
// A memory of so many pages under one replacement policy, driven by references in batches.
//
// Not modelled: the time that a page takes to come in, and any but one page coming or going at a
// time. Writes make a page dirty; a dirty page that goes is written back.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "base/result.h"
#include "stack/policy.h"

namespace stallscope::stack {

struct Misses {
  std::uint64_t references = 0;
  std::uint64_t misses = 0;
  std::uint64_t evictions = 0;
  std::uint64_t write_misses = 0;  // where writes are told apart
  std::uint64_t writebacks = 0;    // dirty pages thrown out
  std::uint64_t bytes = 0;         // memory that the simulation uses
};

class Replacement {
 public:
  virtual ~Replacement() = default;
  // `writes` is empty, or says of each reference whether it writes.
  virtual Status append(std::span<const std::uint64_t> pages,
                        std::span<const std::uint8_t> writes = {}) = 0;
  // Of everything appended so far. Belady's optimum is computed here, the others on the way.
  virtual Misses misses() = 0;
};

// The only list of policies: help, validation and errors read it.
struct ReplacementEntry {
  PolicyFacts facts;
  std::unique_ptr<Replacement> (*make)(std::uint32_t memory);
};
std::span<const ReplacementEntry> replacements();

Result<std::unique_ptr<Replacement>> make_replacement(std::string_view name, std::uint64_t memory);

}  // namespace stallscope::stack
