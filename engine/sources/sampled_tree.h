// SPDX-License-Identifier: Apache-2.0
// All processes of a recording at native speed: the kernel's records, put into the order of time,
// make process images and fill them.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "sources/sampled.h"

namespace stallscope::sources {

class SampledTree {
 public:
  // `heap_logs` is the folder where allocation logs are; empty when there are none.
  SampledTree(symbols::SymbolCache& symbols, unsigned skid, std::uint64_t started, bool children,
              std::string heap_logs = {})
      : sampling_{symbols, code_, skid, started, std::move(heap_logs)}, children_(children) {}
  SampledTree(const SampledTree&) = delete;

  // Before anything is taken: the records tell of processes of the past, or of another machine.
  void set_past() { sampling_.running = false; }
  // Before anything is taken: where sampled accesses go that somebody may want to watch.
  void offer_to(std::vector<Offered>& offered) { sampling_.offered = &offered; }

  // A process that runs already: its mappings and threads as /proc has them.
  Status adopt(std::uint32_t pid);

  // Keeps a copy of a record, until all from before its time have come.
  void add(std::span<const std::byte> record, const Layout& layout);
  // No more will come from before this time.
  void settle(std::uint64_t until);
  // For who brings records in their order already.
  void take(const Event& event);

  // In the order in which they began.
  const std::vector<std::unique_ptr<SampledImage>>& images() const { return images_; }
  std::uint64_t samples() const { return samples_; }
  std::uint64_t lost() const { return lost_; }
  std::uint64_t damaged() const { return damaged_; }

 private:
  struct Pending {
    std::uint64_t time;
    std::size_t start;  // in bytes_
  };
  void on(const Sample& sample);
  void on(const Mapped& mapped);
  void on(const Named& named);
  void on(const Forked& forked);
  void on(const Exited& exited);
  void on(const Lost& lost);
  template <typename T>
  void on(const T&) {}

  SampledImage& image_of(std::uint32_t pid, std::uint64_t time);
  SampledImage& make_image(std::uint32_t pid, std::uint64_t time);

  CodeFiles code_;
  Sampling sampling_;
  bool children_;  // whether processes that it starts are followed
  Layout layout_;
  std::vector<std::byte> bytes_;
  std::vector<Pending> pending_;
  std::vector<std::unique_ptr<SampledImage>> images_;
  std::map<std::uint32_t, SampledImage*> current_;  // by process
  std::map<std::uint32_t, unsigned> made_;          // images of each
  std::uint64_t samples_ = 0;
  std::uint64_t lost_ = 0;
  std::uint64_t damaged_ = 0;
};

}  // namespace stallscope::sources
