// SPDX-License-Identifier: Apache-2.0
#include "session/elements.h"

#include <algorithm>
#include <mutex>

#include "stallscope_records.h"

namespace stallscope::session {
namespace {

constexpr std::size_t kFrames = 2;  // of an allocation path: who asked, and a wrapper of malloc

}  // namespace

Elements::Elements(const stream::CodeTable& code, const probes::Buckets& buckets,
                   symbols::SymbolCache& cache, Modules modules)
    : code_(code), buckets_(buckets), cache_(cache), modules_(std::move(modules)) {}

std::uint64_t Elements::address_of(std::uint32_t operation) const {
  auto after = std::upper_bound(
      code_.blocks.begin(), code_.blocks.end(), operation,
      [](std::uint32_t o, const stream::Block& b) { return o < b.first_operation; });
  if (after == code_.blocks.begin()) return 0;
  const stream::Block& block = *(after - 1);
  if (operation - block.first_operation >= block.operations) return 0;
  const std::uint32_t index = code_.operations[operation].instruction;
  return code_.instructions[block.first_instruction + index].address;
}

std::uint64_t Elements::element_size(const probes::Offsets::Question& question) {
  const std::string_view kind = buckets_.kind_of(question.bucket);
  if (kind == "mapping") return 0;  // of files, which are no arrays of anything
  const std::lock_guard lock(cache_.mutex());
  auto modules = modules_();
  if (!inference_ || modules.size() != known_modules_) {
    known_modules_ = modules.size();
    inference_ = std::make_unique<types::Inference>(std::move(modules), cache_);
  }
  if (kind == "global") return types::element_size(inference_->variable(question.address));
  types::Blocks blocks;
  blocks.largest = question.largest;
  for (const auto& [operation, misses] : question.uses) {
    const stream::Operation& one = code_.operations[operation];
    blocks.uses.push_back({address_of(operation), one.kind == SS_OP_KIND_STORE, one.size, misses});
  }
  if (auto site = sites_.find(buckets_.site_of(question.bucket)); site != sites_.end())
    for (std::size_t i = 0; i < std::min(kFrames, site->second.size()); ++i)
      blocks.calls.push_back(site->second[i] + 1);
  return types::element_size(inference_->infer(blocks));
}

}  // namespace stallscope::session
