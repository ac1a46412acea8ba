// SPDX-License-Identifier: Apache-2.0
// A perf.data file as a recording at native speed: its records make the same process images as
// those that come live out of the kernel's rings.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "base/result.h"
#include "sources/perf_data.h"
#include "sources/sampled_tree.h"
#include "symbols/symbol_cache.h"

namespace stallscope::sources {

class PerfImport : public PerfSink {
 public:
  // Reads the whole file. `symbols` outlives the result, and must be new: what it knows of files
  // that are others than those that were recorded is taken from it.
  static Result<std::unique_ptr<PerfImport>> read(const std::string& path,
                                                  symbols::SymbolCache& symbols);
  // The same of one file that was opened twice: to see when it begins, and to read it.
  static Result<std::unique_ptr<PerfImport>> read(PerfData once, PerfData again,
                                                  symbols::SymbolCache& symbols);

  SampledTree& tree() { return tree_; }
  const PerfFacts& facts() const { return file_.facts(); }
  const std::vector<PerfEvent>& events() const { return file_.events(); }
  const std::vector<PerfNote>& notes() const { return file_.notes(); }
  std::uint64_t started() const { return started_; }
  // Files with code that are not here, or not as they were; they give no names.
  std::uint64_t other_files() const { return others_.size(); }

  Status on_event(const Event& record, const PerfEvent* event) override;

 private:
  PerfImport(PerfData file, symbols::SymbolCache& symbols, unsigned skid, std::uint64_t started);
  void judge(const Mapped& mapped);
  bool may_inherit(const Forked& forked);
  std::string recorded_id(const Mapped& mapped);

  PerfData file_;
  symbols::SymbolCache& symbols_;
  std::uint64_t started_;
  SampledTree tree_;
  std::size_t ids_known_ = 0;                                // of facts().build_ids
  std::unordered_map<std::string, std::string> build_ids_;   // by path, in bytes
  std::unordered_set<std::string> judged_, others_;          // paths
  std::unordered_map<std::uint32_t, std::uint64_t> mapped_;  // how often, by process
  std::uint64_t inherited_ = 0;                              // mappings, by all forks
};

}  // namespace stallscope::sources
