// SPDX-License-Identifier: Apache-2.0
// What the blocks of a stat bucket are arrays of, found while a machine still runs.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <unordered_map>
#include <vector>

#include "probes/offsets.h"
#include "stream/code_table.h"
#include "types/inference.h"

namespace stallscope::session {

class Elements {
 public:
  using Modules = std::function<std::vector<types::Module>()>;

  // `modules` gives those that are there when it is called, in the same order as before. All
  // arguments outlive this. The cache's mutex is taken for each question.
  Elements(const stream::CodeTable& code, const probes::Buckets& buckets,
           symbols::SymbolCache& cache, Modules modules);

  // Allocation paths, as the stream tells them.
  void site(std::uint32_t number, std::vector<std::uint64_t> addresses) {
    sites_[number] = std::move(addresses);
  }
  std::uint64_t element_size(const probes::Offsets::Question& question);

 private:
  std::uint64_t address_of(std::uint32_t operation) const;

  const stream::CodeTable& code_;
  const probes::Buckets& buckets_;
  symbols::SymbolCache& cache_;
  Modules modules_;
  std::unordered_map<std::uint32_t, std::vector<std::uint64_t>> sites_;
  std::unique_ptr<types::Inference> inference_;
  std::size_t known_modules_ = 0;
};

}  // namespace stallscope::session
